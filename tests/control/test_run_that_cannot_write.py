"""A run whose disk is full trains on, and says in its view what is lost meanwhile."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.checkpoint.names import failure_note, partial_folder
from runtime.checkpoint.shard import save_shard
from runtime.contract.messages import ComponentReport, Report
from runtime.contract.operator import CheckpointRequest, ViewRequest
from runtime.contract.paths import RunPaths
from runtime.contract.plan import Plan
from runtime.contract.record import RunRecord
from runtime.contract.states import ComponentState, RunState
from runtime.contract.view import Checkpoints, RunView
from runtime.control.run_control import RunControl
from runtime.control.run_state import Run
from runtime.control.scribe import told_reason

FULL = "No space left on device"


class Hand:
    """The run's control, and what its agent and its components do."""

    def __init__(self, paths: RunPaths, plan: Plan) -> None:
        self.paths, self.plan, self.sequence = paths, plan, 0
        record = RunRecord.model_validate_json(paths.record.read_bytes())
        self.control = RunControl(paths, plan, record, send=lambda *_: True, tell=lambda _message: None, now=0.0)
        self.control.begin(0.0)
        self.report(0)

    def report(self, done: int) -> None:
        self.sequence += 1
        components = tuple(
            ComponentReport(
                name=p.name, role=p.role, state=ComponentState.RUNNING, attempt=1, counters={"env_steps": done},
                checkpoint_done=done, pid=os.getpid(), reason="",
            )
            for p in self.plan.placements
        )  # fmt: skip
        self.control.take(Report(node="n1", sequence=self.sequence, components=components), float(self.sequence))

    def checkpoint(self, *, full: bool) -> None:
        """One that is asked for; on a full disk the buffer leaves a note of its own name, without a word in it."""
        step = self.control.answer(CheckpointRequest()).data["step"]
        folder = partial_folder(self.paths.checkpoints, step)
        for placement in self.plan.placements:
            save_shard(folder, placement.name, {}, {})
        if full:
            (folder / failure_note("buffer-0", errno.ENOSPC)).touch()
        self.report(step)
        deadline = time.monotonic() + 30.0
        while self.control.desk.round is not None:  # a thread looks at what is there
            assert time.monotonic() < deadline
            self.control.look(float(self.sequence))

    @property
    def view(self) -> RunView:
        return RunView.model_validate(self.control.answer(ViewRequest()).data)


@pytest.fixture
def hand(run_folder: RunPaths, make_plan: Any, write_run_files: Any) -> Iterator[Hand]:
    plan = make_plan()
    write_run_files(run_folder, plan)
    made = Hand(run_folder, plan)
    yield made
    made.control.close()


def test_checkpoints_that_fail_are_counted_in_the_view_with_the_way_out(
    hand: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    well = hand.view.reason
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            hand.checkpoint(full=True)
    view = hand.view
    found = view.checkpoints
    assert (found.last_step, found.failed_in_a_row) == (None, 3)
    assert FULL in found.problem
    assert "free some space" in found.hint
    assert view.state is RunState.RUNNING
    assert view.reason.startswith(f"{well}; but checkpoints fail, 3 in a row: buffer-0 could not write its part in ")
    levels = {record.levelname for record in caplog.records if record.getMessage().startswith("checkpoint.failed")}
    assert levels == {"WARNING"}
    hand.checkpoint(full=False)
    view = hand.view
    assert (view.checkpoints.complete, view.checkpoints.failed_in_a_row, view.reason) == (1, 0, well)


def test_a_view_that_cannot_be_written_is_told_of_in_the_view_and_once_a_minute_as_an_event(hand: Hand) -> None:
    well, control = hand.view.reason, hand.control
    hand.paths.view.unlink(missing_ok=True)
    hand.paths.view.mkdir()  # so that no file can take its place
    for now in (1.0, 2.0, 3.0):
        control.write(now)
    assert hand.view.reason == f"{well}; but the run's own state cannot be written: {os.strerror(errno.EISDIR)}"
    assert [event.kind for event in control.events.newest].count("state.unwritten") == 1
    control.write(70.0)
    assert [event.kind for event in control.events.newest].count("state.unwritten") == 2
    hand.paths.view.rmdir()
    control.write(71.0)
    assert hand.view.reason == well


def test_a_run_that_is_ending_gives_its_own_reason_alone() -> None:
    broken = Checkpoints(failed_in_a_row=2, problem=FULL)
    assert told_reason(Run(state=RunState.STOPPING, reason="asked"), broken, FULL) == "asked"
