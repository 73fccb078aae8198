"""Bottlenecks made on purpose on this machine, measured for real: the explanation of the plan names each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planning_problems import CARTPOLE, PRINTS

from runtime.contract.job import Job
from tianjictl.planning.build import make_plan
from tianjictl.planning.cause import Cause
from tianjictl.planning.explain import Explanation, explain
from tianjictl.planning.stating import node_of, state
from tianjictl.profiling.local import local_facts, measure_request, measured_sizes
from tianjictl.profiling.probing import measure
from tianjictl.profiling.speeds import Speeds


def explained(folder: Path, **sections: Any) -> Explanation:
    """Of one learner and one actor, on rates that are measured now, briefly."""
    counts = {"learners": 1, "actors": 1, "learner_cores": 1, "oversubscribe": True}
    distributed = {**counts, **sections.pop("distributed", {})}
    document = {"name": "test", "env": {"id": "CartPole-v1", "num_envs": 16}, "distributed": distributed, **sections}
    wanted, facts = Job.model_validate(document), local_facts()
    request = measure_request(wanted, CARTPOLE, measured_sizes(wanted, CARTPOLE), facts, folder)
    speeds = Speeds(measure(request.model_copy(update={"seconds": 0.2}), lambda _step: None))
    decided: list[Any] = []
    nodes = [node_of(facts, speeds.at())]
    problem = state(wanted, CARTPOLE, nodes, lambda sizes: [node_of(facts, speeds.at(sizes))])
    plan = make_plan(problem, wanted, CARTPOLE, PRINTS, decided=lambda *both: decided.append(both))
    return explain(*decided[0], plan)


def test_a_simulator_that_sleeps_is_named(tmp_path: Path) -> None:
    found = explained(tmp_path, algorithm={"name": "ppo"}, env={"id": "CartPole-v1", "num_envs": 16, "delay_us": 5_000})
    assert found.bottleneck == Cause.SIMULATOR
    assert "a step of 16 environments takes " in found.binds[0].sentence


def test_a_learner_with_a_wide_network_is_named(tmp_path: Path) -> None:
    wide = {"name": "ppo", "network": {"hidden": [512, 512]}}
    found = explained(tmp_path, algorithm=wide)
    assert found.bottleneck == Cause.LEARNER


def test_a_batch_that_p_keeps_small_is_named(tmp_path: Path) -> None:
    tight = {"training": {"staleness_tolerance": 0.001}, "distributed": {"buffer_size": 20_000}}
    found = explained(tmp_path, algorithm={"name": "dqn"}, **tight)
    assert found.bottleneck == Cause.STALENESS
    assert "holds the batch at 20 samples (it would be 256)" in found.binds[0].sentence
    assert found.binds[0].gain > 1.0, "as measured by turns: an update of 20 samples is nearly as dear as one of 256"
    assert "; with that L1A1 would reach " in found.binds[0].sentence
