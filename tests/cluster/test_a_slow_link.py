"""A training whose actors are partly behind a slow cable, marked as such: it learns, and little goes over the cable."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from runtime.contract.plan import Plan
from runtime.wiring import fragments_ring, wire
from support.cluster_runs import Operator, nothing_left, socket_of
from support.pretend_hosts import PretendHosts

pytestmark = pytest.mark.timeout(300)

ENDED = ("completed", "failed", "stopped")
HEAD, FAR = "cn01", "cn02"
#: As in the example for CartPole that the project ships, with environments that take their time: on few cores the far
#: actors would otherwise come to nothing beside the learner.
JOB = {
    "name": "far",
    "env": {"id": "CartPole-v1", "num_envs": 32, "delay_us": 5000},
    "algorithm": {
        "name": "ppo", "learning_rate": 4e-3, "learning_rate_end": 4e-4, "learning_rate_decay_steps": 150_000,
        "gamma": 0.99, "gae_lambda": 0.95, "rollout": 32, "epochs": 6, "minibatch": 256,
        "network": {"hidden": [32, 32], "activation": "tanh"},
    },
    "distributed": {"learners": 1, "actors": 4, "oversubscribe": True},
    "training": {"batch_size": 2048, "seed": 0, "stop": {"reward": 475, "wall_time": "4m"}},
}  # fmt: skip


def test_a_training_over_a_slow_cable_learns_and_sends_less_than_three_tenths_of_the_bytes(
    pretend_hosts: PretendHosts, tmp_path: Path
) -> None:
    pretend_hosts.netem(1, rate_mbit=100, delay_ms=50)
    marked = {HEAD: {"tianji_max_cores": 1}, FAR: {"tianji_link": "wan", "tianji_roles": "actor"}}
    operator = Operator(tmp_path / "home", pretend_hosts.inventory(tmp_path / "hosts.yaml", range(2), **marked))
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(JOB, sort_keys=False))
    run = operator.launch(job)
    while (shown := operator.status(run))["state"] not in ENDED:
        time.sleep(0.5)
    assert shown["state"] == "completed", shown["reason"]
    assert shown["reward"]["best_mean_100"] >= 475
    assert {c["host"] for c in shown["components"] if c["role"] == "learner"} == {HEAD}
    assert {c["host"] for c in shown["components"] if c["role"] == "actor"} == {HEAD, FAR}

    links = {(link["from"], link["to"]): link for link in shown["links"]}
    assert set(links) == {(HEAD, FAR), (FAR, HEAD)}
    assert all(link["wan"] and link["saved_bytes"] > 0 for link in links.values())
    sent = sum(link["sent_bytes"] for link in links.values())
    uncoded = sum(link["sent_bytes"] + link["saved_bytes"] for link in links.values())
    assert sent <= 0.30 * uncoded, f"{sent / uncoded:.3f} of {uncoded} bytes"

    plan = Plan.model_validate_json((socket_of(pretend_hosts, run).parent / "plan.json").read_text())
    fragment = wire(plan, HEAD).rings[fragments_ring("actor-0")]
    came = (links[FAR, HEAD]["sent_bytes"] + links[FAR, HEAD]["saved_bytes"]) // fragment.layout.nbytes
    samples = came * JOB["env"]["num_envs"] * JOB["algorithm"]["rollout"]
    share = samples / shown["samples"]["produced"]
    assert share >= 0.3, f"{samples} of {shown['samples']} came from the far host"
    assert operator.type("stop", run, "--yes").returncode == 0
    assert nothing_left(pretend_hosts, run)
