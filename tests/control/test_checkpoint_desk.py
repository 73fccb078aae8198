"""The coordinator's part in checkpoints where somebody dies in the middle: deterministic, over a real folder."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.manifest import Manifest
from runtime.checkpoint.names import partial_folder, step_folder
from runtime.checkpoint.partial import PartialCheckpoint
from runtime.checkpoint.shard import save_shard
from runtime.checkpoint.store import verify
from runtime.contract.paths import RunPaths
from runtime.control import checkpoints
from runtime.control.checkpoints import CheckpointDesk
from runtime.control.counted import Base
from runtime.control.event_log import EventLog
from runtime.control.fold import Fold
from runtime.control.orphan_record import OrphanRecord
from runtime.control.run_state import CheckpointFailed, CheckpointWritten

NEEDED = ("learner-0", "buffer-0")


def wall() -> datetime:
    return datetime.now(UTC)


def manifest(step: int) -> Manifest:
    return Manifest(run_id="r", name="r", step=step, created_at=wall(), shape="L1A2", job_digest="-")


class Patient:
    """The thread that seals, in the test's hands: what it was given is done when the test says so."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []

    def submit(self, act: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.work.append(lambda: future.set_result(act(*arguments)))
        return future

    def shutdown(self) -> None: ...


class Table:
    """A desk over a folder."""

    def __init__(self, folder: Path, plan: Any) -> None:
        self.paths, self.plan = RunPaths(folder), plan
        self.paths.checkpoints.mkdir(exist_ok=True)
        self.fold = Fold(plan, Base())
        self.thread = Patient()

    def desk(self) -> CheckpointDesk:
        return CheckpointDesk(self.plan, self.paths, EventLog(self.paths.events, wall), wall, now=0.0)

    def shards(self, step: int) -> None:
        for name in NEEDED:
            save_shard(partial_folder(self.paths.checkpoints, step), name, {}, {})

    def guardian_says(self, step: int) -> None:
        self.paths.orphaned.write_text(OrphanRecord(step=step, reason="its agent is gone").model_dump_json())

    def look(self, desk: CheckpointDesk) -> Any:
        return desk.look(self.fold, manifest, now=1.0)


@pytest.fixture
def table(tmp_path: Path, make_plan: Any, monkeypatch: pytest.MonkeyPatch) -> Table:
    table = Table(tmp_path, make_plan())
    monkeypatch.setattr(checkpoints, "ThreadPoolExecutor", lambda *_, **__: table.thread)
    return table


def test_the_guardians_checkpoint_is_taken_over_also_if_it_chose_the_step_of_the_open_round(table: Table) -> None:
    desk = table.desk()
    assert desk.begin("it is time", "ev-1", env_steps=500, now=0.0) is None
    table.shards(500)  # the agent died before it heard of the round; its guardian asks for the same step
    desk.adopt("ev-2", now=0.5)
    assert table.look(desk) is None
    table.guardian_says(500)
    table.look(desk)
    table.thread.work.pop()()
    assert table.look(desk) == CheckpointWritten(id="ev-2", step=500)
    assert verify(step_folder(table.paths.checkpoints, 500)) == []


def test_a_checkpoint_that_is_being_sealed_when_the_agent_dies_is_finished_before_the_guardians(table: Table) -> None:
    desk = table.desk()
    desk.begin("it is time", "ev-1", env_steps=500, now=0.0)
    table.shards(500)
    desk._begin_seal(manifest(500))
    desk.adopt("ev-2", now=0.5)
    table.guardian_says(600)
    table.shards(600)
    assert table.look(desk) is None
    table.thread.work.pop()()
    assert table.look(desk) is None, "the run's last checkpoint is the guardian's"
    assert desk.last == 500
    table.look(desk)
    table.thread.work.pop()()
    ended = table.look(desk)
    assert isinstance(ended, CheckpointWritten)
    assert ended.step == desk.last == 600


def test_a_round_that_was_sealed_when_its_coordinator_died_has_been_written(table: Table) -> None:
    first = table.desk()
    first.begin("it is time", "ev-1", env_steps=500, now=0.0)
    open_round = first.round
    table.shards(500)
    PartialCheckpoint(table.paths.checkpoints, 500, adopt=True).complete(manifest(500), NEEDED)
    assert open_round is not None
    ended = table.desk().resume(open_round, now=2.0)
    assert isinstance(ended, CheckpointWritten)
    assert not partial_folder(table.paths.checkpoints, 500).exists()


def test_a_coordinator_that_died_between_manifest_and_rename_leaves_a_round_that_can_be_finished(table: Table) -> None:
    first = table.desk()
    first.begin("it is time", "ev-1", env_steps=500, now=0.0)
    open_round = first.round
    assert open_round is not None
    table.shards(500)
    (partial_folder(table.paths.checkpoints, 500) / "manifest.json").write_text("{}")
    first._partial.let_go()  # type: ignore[union-attr]
    second = table.desk()
    assert second.resume(open_round, now=2.0) is None
    second._begin_seal(manifest(500))
    table.thread.work.pop()()
    assert isinstance(table.look(second), CheckpointWritten)
    assert verify(step_folder(table.paths.checkpoints, 500)) == []


def test_a_round_that_cannot_be_gone_on_with_fails_and_says_so(table: Table) -> None:
    desk = table.desk()
    desk.begin("it is time", "ev-1", env_steps=500, now=0.0)
    open_round = desk.round
    assert open_round is not None
    desk.adopt("ev-2", now=0.5)
    folder = partial_folder(table.paths.checkpoints, 500)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.touch()  # something is in the way
    assert isinstance(table.desk().resume(open_round, now=2.0), CheckpointFailed)


def test_steps_go_on_above_every_checkpoint_that_there_is(table: Table) -> None:
    table.shards(500)
    PartialCheckpoint(table.paths.checkpoints, 500, adopt=True).complete(manifest(500), NEEDED)
    desk = table.desk()
    desk.begin("it is time", "ev-1", env_steps=500, now=0.0)
    assert desk.round is not None
    assert desk.round.step == 501
