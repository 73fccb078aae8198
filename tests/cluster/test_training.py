"""A training over four hosts: launched over SSH, seen whole, ended without a trace; grown and shrunk meanwhile."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.cluster_runs import PATIENCE, STEADY, Operator, Watcher, in_time, nothing_left, socket_of
from support.pretend_hosts import PretendHosts

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory, pretend_hosts: PretendHosts) -> Operator:
    folder = tmp_path_factory.mktemp("operator")
    return Operator(folder / "home", pretend_hosts.inventory(folder / "hosts.yaml", range(4)))


@pytest.fixture(scope="module")
def run(operator: Operator, pretend_hosts: PretendHosts) -> Iterator[str]:
    """A training that takes its time: environments sleep, so that many actors make sense on few cores."""
    path = operator.home.parent / "steady.yaml"
    path.write_text(yaml.safe_dump({"name": "steady", **STEADY}, sort_keys=False))
    run = operator.launch(path)
    yield run
    operator.type("stop", run, "--yes")
    assert nothing_left(pretend_hosts, run)


def test_four_hosts_train_to_475_show_everything_and_leave_nothing(
    pretend_hosts: PretendHosts, operator: Operator, tmp_path: Path
) -> None:
    path = tmp_path / "job.yaml"
    quick = {"stop": {"reward": 475, "wall_time": "4m"}}
    shape = {"learners": 2, "actors": 8, "oversubscribe": True}
    path.write_text(
        yaml.safe_dump(
            {
                "name": "quick",
                "env": {"id": "CartPole-v1", "delay_us": 5000},
                "algorithm": {"name": "ppo"},
                "distributed": shape,
                "training": quick,
            }
        )
    )
    run = operator.launch(path)
    with Watcher(socket_of(pretend_hosts, run)) as watcher:
        watcher.until(lambda look: look.view["state"] == "running" and look.linked, "it runs, linked", 30)
        shown = operator.status(run)
        assert [host["name"] for host in shown["hosts"]] == pretend_hosts.names[:4]
        assert {host["state"] for host in shown["hosts"]} == {"connected"}
        roles = [re.split(r"[-.]", component["name"])[0] for component in shown["components"]]
        assert (roles.count("learner"), roles.count("buffer"), roles.count("actor")) == (2, 2, 8)
        assert {link["transport"] for link in shown["links"]} == {"tcp"}
        end = time.monotonic() + 245
        while time.monotonic() < end and operator.status(run)["state"] not in ("completed", "failed", "stopped"):
            time.sleep(0.5)
    ended = operator.status(run)
    assert ended["state"] == "completed", ended["reason"]
    assert ended["reward"]["best_mean_100"] >= 475
    assert all(look.balanced for look in watcher.looks)
    assert watcher.never_back()
    assert operator.type("stop", run, "--yes").returncode == 0
    assert nothing_left(pretend_hosts, run)


def test_growing_to_l4a16_on_two_more_hosts_and_back_never_stops_the_training(
    pretend_hosts: PretendHosts, operator: Operator, run: str, tmp_path: Path
) -> None:
    pretend_hosts.up(6)
    everybody = pretend_hosts.inventory(tmp_path / "six.yaml", range(6))
    with Watcher(socket_of(pretend_hosts, run)) as watcher:
        watcher.until(lambda look: look.updates > 20, "it trains", 60)
        time.sleep(11)  # rates are those of the last 10 s
        before = watcher.looks[-1]
        words = ["--add-host", "cn05", "--add-host", "cn06", "-i", str(everybody), "--yes"]
        began = time.monotonic()
        grown = operator.type("scale", run, "L4A16", *words)
        assert grown.returncode == 0, grown.stderr
        there = watcher.until(lambda look: look.view["shape"]["present"] == "L4A16", "all are there", 20)
        assert in_time(there.at - began, 15, "there")
        time.sleep(12)
        large = watcher.looks[-1]
        shrunk = operator.type("scale", run, "L2A8", "--yes")
        assert shrunk.returncode == 0, shrunk.stderr
        watcher.until(
            lambda look: look.view["shape"]["present"] == "L2A8" and look.view["state"] == "running",
            "it is small again",
            30,
        )
        time.sleep(3)
        assert watcher.kept_updating(before.at, 2.0)
        assert watcher.never_back()
        assert all(look.balanced for look in watcher.looks)
        lost = [look.view["samples"]["dropped_other"] for look in watcher.looks]
        assert lost[-1] == lost[0], "samples were lost by scaling"
    rates = [look.view["rates"]["samples_per_s"] for look in (before, large)]
    assert rates[1] >= (1.0 + 0.8 / PATIENCE) * rates[0], rates


def test_a_stopped_run_leaves_no_process_on_any_host(pretend_hosts: PretendHosts, operator: Operator, run: str) -> None:
    assert not nothing_left(pretend_hosts, run)
    done = operator.type("stop", run, "--yes")
    assert done.returncode == 0, done.stderr
    assert nothing_left(pretend_hosts, run)
    assert operator.status(run)["state"] == "stopped"
    assert operator.ask("checkpoints", run)
