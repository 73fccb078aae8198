"""A slow cable between real SSH hosts: measured by `profile`, reckoned with by `plan`, named by `--explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.pretend_hosts import PretendHosts
from tianjictl.cli.main import main

JOB = """
name: far
env: {id: CartPole-v1}
algorithm: {name: ppo}
distributed: {learners: 1, actors: 1, learner_cores: 1}
"""


@pytest.fixture(autouse=True)
def own_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIANJICTL_HOME", str(tmp_path / "state"))


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(words) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_explain_names_the_slow_cable_between_actors_and_their_learner(
    pretend_hosts: PretendHosts, tmp_path: Path, capsys
) -> None:
    """CartPole's steps are 72 bytes: 1 Mbit/s carries fewer than 2,000 of them per second, any learner takes more."""
    pretend_hosts.netem(1, rate_mbit=1)
    roles = {"cn01": {"tianji_roles": "learner"}, "cn02": {"tianji_roles": "actor"}}
    inventory = str(pretend_hosts.inventory(tmp_path / "h.yaml", range(2), **roles))
    job, profile = tmp_path / "job.yaml", str(tmp_path / "profile.json")
    job.write_text(JOB)
    answered(capsys, "profile", str(job), "-i", inventory, "-o", profile, "--json")
    document = answered(capsys, "plan", str(job), "-i", inventory, "--profile", profile, "--explain", "--json")
    explained = document["data"]["explain"]
    assert explained["bottleneck"] == "network"
    sentence = explained["binds"][0]["sentence"]
    assert "cn02 → cn01 carries 0." in sentence
    assert "all of it used by fragments of 1 actor" in sentence
    assert all(0.05 < host["mb_per_s"] < 0.13 for host in document["data"]["hosts"]), "1 Mbit/s are 0.125 MB/s"
    assert explained["binds"][0]["gain"] > 1.0
    assert document["data"]["predicted"]["samples_per_s"] < 2_500
