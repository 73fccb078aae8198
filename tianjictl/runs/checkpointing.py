"""Asking a live run for a checkpoint, and waiting until it is whole."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.contract.operator import CheckpointRequest
from tianjictl.errors import CheckpointProblem, TimedOut, UsageProblem
from tianjictl.runs.access import head_place
from tianjictl.runs.client import changed_at, clock_of, observe, request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tianjictl.runs.registry import Run

_LOOK_EVERY_S = 0.1
_CLOCK_GRAIN_S = 0.1  #: file times are coarser than the clock


@dataclass(frozen=True, slots=True)
class Written:
    """A checkpoint that is whole: its step, its folder (with the host, where that is another) and what it took."""

    step: int
    path: str
    seconds: float


def write_checkpoint(run: Run, within_s: float, progress: Callable[[str], None]) -> Written:
    """Write a checkpoint now; TimedOut after `within_s`.

    A run that is over is a UsageProblem, one that lives and cannot write a CheckpointProblem.
    """
    began = time.monotonic()
    _refuse_if_over(run)
    asked_at = clock_of(run)
    answer = request(run, CheckpointRequest(), timeout_s=min(within_s, 10.0))
    if not isinstance(answer, dict) or not isinstance(answer.get("step"), int):
        raise CheckpointProblem(f"the coordinator answered {answer!r} instead of a step")
    step = answer["step"]
    progress(f"writing checkpoint {step}")
    path = _wait_for(run, step, asked_at, began + within_s)
    return Written(step, path, time.monotonic() - began)


def _refuse_if_over(run: Run) -> None:
    """A run that has ended cannot write; what it has written is still there."""
    picture = observe(run)
    if picture.ended:
        raise UsageProblem(
            f"{run.run_id} is not running ({picture.view.state}: {picture.view.reason}): it can write no checkpoint",
            hint=f"tianjictl checkpoints {run.run_id} lists those it has",
        )


def _wait_for(run: Run, step: int, asked_at: float, deadline: float) -> str:
    """The folder of the checkpoint once it is whole; its name appears by a rename, so it is never there by half.

    A folder of the same step from before `asked_at` (seconds since the epoch) is of an earlier attempt.
    """
    folder = run.paths.checkpoints / f"step-{step:012d}"
    while not _is_there(run, folder, asked_at):
        picture = observe(run)
        if picture.ended and not _is_there(run, folder, asked_at):
            raise CheckpointProblem(f"the run ended before checkpoint {step} was complete: {picture.view.reason}")
        failed = [
            event for event in picture.view.events if event.kind == "checkpoint.failed" and str(step) in event.message
        ]
        if failed:
            raise CheckpointProblem(failed[-1].message, hint=f"tianjictl events {run.run_id}")
        if time.monotonic() > deadline:
            raise TimedOut(f"checkpoint {step} is not complete yet", hint=f"tianjictl checkpoints {run.run_id}")
        time.sleep(_LOOK_EVERY_S)
    place = head_place(run)
    return str(folder) if place is None else f"{place.node.name}:{place.node.folder}/checkpoints/{folder.name}"


def _is_there(run: Run, folder: Path, asked_at: float) -> bool:
    written = changed_at(run, folder / "manifest.json")
    return written is not None and written >= asked_at - _CLOCK_GRAIN_S
