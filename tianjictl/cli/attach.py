"""Following a run from a terminal, and what it means when the run, or the person, leaves."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.control import Control

from runtime.contract.states import RunState
from tianjictl.cli.keys import CtrlC, Keyboard, counted_interrupts, keyboard
from tianjictl.cli.options import Json, OptionalRun
from tianjictl.cli.output import emit_json, err, is_terminal, live_screen, note, say
from tianjictl.cli.screen import fitting, progress_line, result_line
from tianjictl.cli.status_json import status_data
from tianjictl.errors import Finding, Interrupted, TianjiError, TimedOut, TrainingFailed, Unreachable
from tianjictl.launching.stopping import stop_run
from tianjictl.runs.afterwards import NOTHING_SAVED, after_failure, way_on
from tianjictl.runs.client import Picture, observe
from tianjictl.runs.registry import Run, find_run
from tianjictl.runs.settings import stop_grace_s

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.live import Live

_LOOK_EVERY_S = 0.5
_TICK_S = 0.05  #: between two looks for a key, Ctrl-C or the completion record, which cost nothing
_LINE_EVERY_S = 5.0
_ANSWER_WITHIN_S = 1.0
_TOLD_FOR_S = 5.0  #: an answer to Ctrl-C stands on the live screen
_KEYS = "d detaches, Ctrl-C shows the status"


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
            hint=way_on(observe(run).view) or NOTHING_SAVED,
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
    if view.state is RunState.STOPPED:
        raise TianjiError(f"{run.run_id} was stopped: {view.reason}", hint=way_on(view) or NOTHING_SAVED)
    bad = run.paths.bad_batches
    logs = after_failure(view, bad if bad.is_dir() else None)
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
            how = "press d to detach and training goes on" if sys.stdin.isatty() else "training goes on without you"
            display.tell(progress_line(picture.view), f"{how}; press Ctrl-C again within 2 s to stop it")


def _stop(run: Run) -> None:
    report = stop_run(run, checkpoint=True, grace_s=stop_grace_s(run), reason="Ctrl-C was pressed twice", progress=note)
    if report.survivors:
        left = ", ".join(map(str, report.survivors))
        raise TimedOut(f"still running: {left}", hint=f"tianjictl stop {run.run_id} --force")
    if report.unreachable:
        raise Unreachable.listing([Finding(line, f"tianjictl stop {run.run_id}") for line in report.unreachable])


class _Display:
    """A live screen where a person looks on, a plain line every few seconds elsewhere; both on standard error.

    The live one is the terminal's other screen: what was drawn for one size can always be drawn over for another, and
    nothing of it is left among the lines of the shell.
    """

    def __init__(self) -> None:
        self._live = live_screen(err()) if is_terminal(sys.stderr) else None
        self._block: AbstractContextManager[Any] = self._live or nullcontext()
        self._next_line = 0.0
        self._state = ""
        self._picture: Picture | None = None
        self._told: tuple[float, str] = (0.0, "")  #: until when it stands there, and what

    def __enter__(self) -> _Display:
        self._block.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        if self._live is not None:
            # A terminal that has been resized may take lines of the other screen for its own when it comes back.
            self._live.console.control(Control.home(), Control.clear())
        self._block.__exit__(*details)

    def show(self, picture: Picture) -> None:
        self._picture = picture
        now = time.monotonic()
        if self._live is not None:
            self._draw(self._live, picture, now)
            return
        if now >= self._next_line or picture.view.state != self._state:
            stale = f" (STALE, {picture.age_s:.0f} s old: {picture.problem})" if picture.stale else ""
            note(progress_line(picture.view) + stale)
            self._next_line = now + _LINE_EVERY_S
            self._state = picture.view.state

    def tell(self, *lines: str) -> None:
        """What answers a key: lines that stay, or stand on the live screen for a while instead of its keys."""
        if self._live is None:
            for line in lines:
                note(line)
            return
        now = time.monotonic()
        self._told = (now + _TOLD_FOR_S, "\n".join(lines))
        if self._picture is not None:
            self._draw(self._live, self._picture, now)

    def _draw(self, block: Live, picture: Picture, now: float) -> None:
        until, told = self._told
        block.update(Group(*fitting(picture, block.console, told if now < until else _KEYS)), refresh=True)
