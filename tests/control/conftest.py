"""Builders with dull defaults, shared by the tests of the control plane."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from runtime.contract.envspec import EnvSpec
from runtime.contract.files import write_whole
from runtime.contract.job import Job
from runtime.contract.paths import RunPaths
from runtime.contract.plan import Fingerprints, HostPlan, Placement, Plan, Prediction, Sizes
from runtime.contract.record import RunRecord
from runtime.contract.states import Role

if TYPE_CHECKING:
    from pathlib import Path


class MakePlan(Protocol):
    def __call__(self, *, learners: int = 1, actors: int = 2, algorithm: str = "ppo", **job: Any) -> Plan: ...


@pytest.fixture
def make_plan() -> MakePlan:
    def make(*, learners: int = 1, actors: int = 2, algorithm: str = "ppo", **job: Any) -> Plan:
        names = [(Role.LEARNER, n) for n in range(learners)] + [(Role.BUFFER, n) for n in range(learners)]
        names += [(Role.ACTOR, n) for n in range(actors)]
        content = {"name": "dull", "env": {"id": "CartPole-v1"}, "algorithm": {"name": algorithm}, **job}
        return Plan(
            shape=f"L{learners}A{actors}",
            job=Job.model_validate(content),
            env=EnvSpec(
                id="CartPole-v1", observation_shape=(4,), num_actions=2, native_vector=True, autoreset="next-step"
            ),
            sizes=Sizes(
                num_envs=8, rollout=32, batch_size=256, fragments_per_batch=1, buffer_size=1024, ring_slots=4,
                batch_slots=2, publish_every=1, staleness_tolerance=0.5, pool_ratio=0.25,
            ),
            hosts=(HostPlan(name="n1", cores=(0, 1)),),
            placements=tuple(
                Placement(
                    name=f"{role}-{index}", role=role, index=index, group=index % learners, host="n1", cores=(0,),
                    core_share=0.5,
                )
                for role, index in names
            ),
            predicted=Prediction(env_steps_per_s=1000.0, samples_per_s=900.0),
            fingerprints=Fingerprints(job="j" * 8, inventory="i" * 8),
            solver="optimal",
        )  # fmt: skip

    return make


@pytest.fixture
def run_folder(tmp_path: Path) -> RunPaths:
    """A fresh run folder as `launch` leaves it, but for plan and record."""
    paths = RunPaths(tmp_path / "dull-20260101-000000-abcd")
    paths.root.mkdir(mode=0o700)
    for folder in (paths.checkpoints, paths.logs):
        folder.mkdir()
    return paths


def write_run(paths: RunPaths, plan: Plan, *, attempt: int = 1, resumed_from: str | None = None) -> None:
    record = RunRecord(
        run_id=paths.run_id, name="dull", created_at=datetime.now(UTC), user="u", host="n1", argv=("t",), version="0",
        attempt=attempt, resumed_from=resumed_from,
    )  # fmt: skip
    write_whole(paths.plan, plan.model_dump_json())
    write_whole(paths.record, record.model_dump_json())


@pytest.fixture
def write_run_files() -> Any:
    return write_run
