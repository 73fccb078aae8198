"""Following a run from a terminal, and what it means when the run, or the person, leaves."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from rich.console import Group

from runtime.contract.states import RunState
from tianjictl.cli.keys import CtrlC, Keyboard, counted_interrupts, keyboard
from tianjictl.cli.options import Json, OptionalRun
from tianjictl.cli.output import emit_json, err, is_terminal, live, note, say
from tianjictl.cli.screen import fitting, progress_line, result_line
from tianjictl.cli.status_json import status_data
from tianjictl.errors import Finding, Interrupted, TianjiError, TimedOut, TrainingFailed, Unreachable
from tianjictl.launching.stopping import stop_run
from tianjictl.runs.client import Picture, observe
from tianjictl.runs.registry import Run, find_run
from tianjictl.runs.settings import stop_grace_s

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_LOOK_EVERY_S = 0.5
_TICK_S = 0.05  #: between two looks for a key, Ctrl-C or the completion record, which cost nothing
_LINE_EVERY_S = 5.0
_ANSWER_WITHIN_S = 1.0


def attach(run: OptionalRun = None, json: Json = False) -> int:
    """Follow a running training until it ends.

    d detaches, and training goes on. Ctrl-C shows the status; pressed again within 2 s it stops the training.
    """
    return follow(find_run(run), command="attach", json=json)


def follow(run: Run, *, command: str, json: bool) -> int:
    """Show the run until it ends or the person leaves, then say what came of it. Returns the exit code."""
    try:
        with counted_interrupts() as presses, keyboard() as keys, _Display() as display:
            outcome = _watch(run, presses, keys, display)
    except Interrupted as error:  # SIGTERM to this command is none to the run
        raise Interrupted(f"{error.message}; training goes on", hint=f"tianjictl attach {run.run_id}") from error
    if outcome == "detached":
        note(f"detached; training goes on. Follow it again: tianjictl attach {run.run_id}")
        if json:
            emit_json(command, status_data(observe(run)))
        return 0
    if outcome == "stop":
        _stop(run)
        raise Interrupted(
            f"stopped {run.run_id}, as Ctrl-C was pressed twice",
            hint=f"tianjictl resume {run.run_id} --from-checkpoint",
        )
    return conclude(run, outcome, command=command, json=json)


def conclude(run: Run, picture: Picture, *, command: str, json: bool) -> int:
    """Say how the run ended; 0 only where its completion record says that it completed."""
    view = picture.view
    completion = run.completion()
    if completion is not None and completion.state is RunState.COMPLETED:
        if json:
            emit_json(command, status_data(picture))
        else:
            say(f"{result_line(view)} ({completion.reason})")
        return 0
    resume = f"tianjictl resume {run.run_id} --from-checkpoint"
    if view.state is RunState.STOPPED:
        raise TianjiError(f"{run.run_id} was stopped: {view.reason}", hint=resume)
    logs = f"tianjictl logs {run.run_id} -n 20, then {resume}"
    if view.state is RunState.FAILED:
        raise TrainingFailed(f"{run.run_id} failed: {view.reason}", hint=logs)
    raise TrainingFailed(f"{run.run_id} is lost: {view.reason}", hint=logs)


def _watch(run: Run, presses: CtrlC, keys: Keyboard, display: _Display) -> Any:
    """Until the run ends (its last Picture is returned), or "detached", or "stop"."""
    next_look = 0.0
    while True:
        if time.monotonic() >= next_look or run.paths.completion.exists():
            picture = observe(run, timeout_s=_ANSWER_WITHIN_S)
            if picture.ended:
                return picture
            display.show(picture)
            next_look = time.monotonic() + _LOOK_EVERY_S
        pressed = keys.key(_TICK_S)
        if pressed in ("d", "q"):
            return "detached"
        wanted = presses.decide()
        if wanted == "stop":
            return "stop"
        if wanted == "show":
            display.tell(progress_line(picture.view))
            how = "press d to detach and training goes on" if sys.stdin.isatty() else "training goes on without you"
            display.tell(f"{how}; press Ctrl-C again within 2 s to stop it")


def _stop(run: Run) -> None:
    report = stop_run(run, checkpoint=True, grace_s=stop_grace_s(run), reason="Ctrl-C was pressed twice", progress=note)
    if report.survivors:
        left = ", ".join(map(str, report.survivors))
        raise TimedOut(f"still running: {left}", hint=f"tianjictl stop {run.run_id} --force")
    if report.unreachable:
        raise Unreachable.listing([Finding(line, f"tianjictl stop {run.run_id}") for line in report.unreachable])


class _Display:
    """A live screen where a person looks on, a plain line every few seconds elsewhere; both on standard error."""

    def __init__(self) -> None:
        self._live = live(err(), transient=True) if is_terminal(sys.stderr) else None
        self._block: AbstractContextManager[Any] = self._live or nullcontext()
        self._next_line = 0.0
        self._state = ""

    def __enter__(self) -> _Display:
        self._block.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._block.__exit__(*details)

    def show(self, picture: Picture) -> None:
        if self._live is not None:
            shown = fitting(picture, self._live.console, "d detaches, Ctrl-C shows the status")
            self._live.update(Group(*shown), refresh=True)
            return
        now = time.monotonic()
        if now >= self._next_line or picture.view.state != self._state:
            stale = f" (STALE, {picture.age_s:.0f} s old: {picture.problem})" if picture.stale else ""
            note(progress_line(picture.view) + stale)
            self._next_line = now + _LINE_EVERY_S
            self._state = picture.view.state

    def tell(self, line: str) -> None:
        """A line that stays."""
        if self._live is not None:
            self._live.console.print(line, markup=False)
        else:
            note(line)
