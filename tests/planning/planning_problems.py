"""Builders with dull defaults for planning tests."""

from __future__ import annotations

from typing import Any

from runtime.contract.envspec import EnvSpec
from runtime.contract.job import Job
from runtime.contract.plan import Fingerprints
from tianjictl.planning.problem import HostProblem, MemoryNeeds, Problem, Rates
from tianjictl.profiling.facts.cpus import Core

MIB = 1 << 20
PRINTS = Fingerprints(job="job", inventory="inventory")
CARTPOLE = EnvSpec(id="CartPole-v1", observation_shape=(4,), num_actions=2, native_vector=True, autoreset="next-step")


def cores(count: int, *, nodes: int = 1, first: int = 0) -> tuple[Core, ...]:
    """`count` CPUs numbered from `first`, split evenly over NUMA nodes."""
    return tuple(Core(cpu=first + i, core=first + i, numa=i * nodes // count) for i in range(count))


def rates(actor: float = 20_000.0, learner: float = 30_000.0, buffer_s: float = 1e-6) -> Rates:
    curve = ((1, learner), (2, 1.7 * learner), (4, 2.5 * learner))
    return Rates(actor_steps_per_s=actor, learner_samples_per_s=curve, buffer_s_per_step=buffer_s)


def problem(num_cores: int = 4, **changes: Any) -> Problem:
    placed = changes.pop("cores", cores(num_cores))
    host = HostProblem(
        name="n1",
        cores=placed,
        capacity=changes.pop("capacity", float(len(placed))),
        memory_bytes=changes.pop("memory_bytes", 64 << 30),
    )
    given: dict[str, Any] = {
        "host": host,
        "learners": None,
        "actors": None,
        "learner_cores": None,
        "least": None,
        "most": None,
        "oversubscribe": False,
        "evaluator": False,
        "trained_per_step": 1.0,
        "turns": False,
        "memory": MemoryNeeds(actor=64 * MIB, learner=224 * MIB, once=300 * MIB),
    }
    return Problem(**(given | changes))


def job(algorithm: str = "ppo", **sections: Any) -> Job:
    return Job.model_validate(
        {"name": "test", "env": {"id": "CartPole-v1"}, "algorithm": {"name": algorithm}, **sections}
    )
