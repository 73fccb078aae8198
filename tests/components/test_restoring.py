"""What a resumed run finds again: counted once, whole, in order, and needed only once."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.checkpoint.manifest import Manifest
from runtime.checkpoint.partial import PartialCheckpoint
from runtime.checkpoint.shard import load_shard
from runtime.components.restoring import restore_replay
from runtime.contract.paths import RunPaths
from runtime.contract.states import Role
from runtime.in_process import InProcessRun
from support.plans import make_job, make_plan

DQN: dict[str, Any] = {
    "algorithm": {"learning_starts": 64, "samples_per_insert": 1.0},
    "training": {"batch_size": 32},
    "distributed": {"buffer_size": 256},
}


def begin(folder: Path, shape: str = "L1A1", resume_from: Path | None = None) -> InProcessRun:
    folder.mkdir()
    plan = make_plan(make_job("dqn", **DQN), shape)
    run = InProcessRun(plan, RunPaths(folder), run_attempt=2 if resume_from else 1, resume_from=resume_from)
    run.start()
    return run


def train(run: InProcessRun, updates: int) -> None:
    until = run.total(Role.LEARNER, "updates") + updates
    while run.total(Role.LEARNER, "updates") < until:
        run.tick()


def seal(run: InProcessRun, step: int = 1000) -> Path:
    partial = PartialCheckpoint(run.paths.checkpoints, step)
    run.checkpoint(step)
    counters = {"env_steps": run.total(Role.ACTOR, "env_steps"), "updates": run.total(Role.LEARNER, "updates")}
    manifest = Manifest(
        run_id="t", name="t", step=step, created_at=datetime.now(UTC), shape=run.plan.shape, job_digest="-",
        counters=counters,
    )  # fmt: skip
    return partial.complete(manifest, [p.name for p in run.plan.placements])


def part(run: InProcessRun, name: str) -> Any:
    return run.components[name]


@pytest.fixture
def saved(tmp_path: Path) -> tuple[InProcessRun, Path]:
    run = begin(tmp_path / "first")
    train(run, 20)
    return run, seal(run)


def test_env_steps_of_earlier_attempts_count_once(tmp_path: Path, saved: tuple[InProcessRun, Path]) -> None:
    first, folder = saved
    before = first.total(Role.ACTOR, "env_steps")
    second = begin(tmp_path / "second", resume_from=folder)
    train(second, 5)
    made = before + second.total(Role.ACTOR, "env_steps")
    assert before <= part(second, "learner-0")._env_steps <= made


def test_after_its_first_life_nothing_needs_the_checkpoint_any_more(
    tmp_path: Path, saved: tuple[InProcessRun, Path]
) -> None:
    second = begin(tmp_path / "second", resume_from=saved[1])
    train(second, 5)
    steps, held = part(second, "learner-0")._env_steps, part(second, "buffer-0")._replay.size
    shutil.rmtree(saved[1])  # newer ones have taken its place
    for name in ("learner-0", "buffer-0", "actor-0"):
        second.components[name] = second.assembly.build(name, 2)
        second.components[name].start()
    train(second, 5)
    assert part(second, "learner-0")._env_steps >= steps
    assert part(second, "buffer-0")._replay.size >= held


def test_a_buffer_that_died_while_it_was_restored_is_restored_again(
    tmp_path: Path, saved: tuple[InProcessRun, Path]
) -> None:
    first, folder = saved
    held = part(first, "buffer-0")._replay.size
    (tmp_path / "second").mkdir()
    plan = make_plan(make_job("dqn", **DQN))
    second = InProcessRun(plan, RunPaths(tmp_path / "second"), run_attempt=2, resume_from=folder)
    memory = part(second, "buffer-0")._memory
    memory["cursor"][:] = 0  # the last that a restoration writes
    successor: Any = second.assembly.build("buffer-0", 2)
    assert successor._replay.size == held


def test_random_streams_go_on_where_they_were(tmp_path: Path, saved: tuple[InProcessRun, Path]) -> None:
    folder = saved[1]
    (tmp_path / "second").mkdir()
    plan = make_plan(make_job("dqn", **DQN))
    second = InProcessRun(plan, RunPaths(tmp_path / "second"), run_attempt=2, resume_from=folder)
    assert part(second, "buffer-0")._rng.bit_generator.state == load_shard(folder, "buffer-0")[1]["random_stream"]
    actor = part(second, "actor-0")
    actor.start()
    assert actor._rng.bit_generator.state == load_shard(folder, "actor-0")[1]["action_stream"]
    fresh: Any = second.assembly.build("actor-0", 2)
    assert fresh._settings.stream is None, "a later life must not draw the same numbers again"


def test_memories_that_become_one_keep_the_newest_of_each(tmp_path: Path) -> None:
    two = begin(tmp_path / "two", "L2A2")
    train(two, 40)
    folder = seal(two)
    inserted = [part(two, f"buffer-{group}")._replay.inserted for group in (0, 1)]
    assert min(inserted) > 256, "both wheels have turned over"
    one = begin(tmp_path / "one")
    memory = {name: array.copy() for name, array in part(one, "buffer-0")._memory.items()}
    restore_replay(folder, one.plan, 0, memory, np.random.default_rng(0))
    for group in (0, 1):
        saved = part(two, f"buffer-{group}")._memory
        position = int(saved["cursor"][0])
        newest = np.roll(saved["obs"], -position, axis=0)[-128:]
        found = {row.tobytes() for row in memory["obs"]}
        assert all(row.tobytes() in found for row in newest)
    assert memory["cursor"][2] == sum(inserted)
