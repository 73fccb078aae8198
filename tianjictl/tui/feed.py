"""Everything that reads: one thread that looks at the run again and again, so that the screen never waits for a host.

One thread for all of it, as a run elsewhere is asked over one connection.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from tianjictl.errors import TianjiError
from tianjictl.tui.scene import Extra

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.plan import Plan
    from runtime.contract.view import Event
    from tianjictl.runs.checkpoints import CheckpointView
    from tianjictl.runs.client import Picture
    from tianjictl.tui.scene import ViewName

_LOG_LINES = 2000  #: of one component that are kept
_EXTRA_EVERY_S = 1.0
_CHECKPOINTS_EVERY_S = 5.0


class Source(Protocol):
    """Where a run is read; `RunSource` is the real one."""

    def picture(self) -> Picture:
        """The newest picture; never fails."""
        ...

    def plan(self) -> Plan:
        """The plan, TianjiError where there is none."""
        ...

    def checkpoints(self) -> list[CheckpointView]:
        """All checkpoints, newest first."""
        ...

    def events(self) -> list[Event]:
        """Those that came since the last call."""
        ...

    def log(self, component: str, *, afresh: bool) -> list[str]:
        """Lines that came since the last call; `afresh`: the newest ones."""
        ...


class Feed:
    """Looks every `period_s` and hands over what it saw; `deliver` is called from the feed's thread."""

    def __init__(self, source: Source, deliver: Callable[[Picture, Extra], None], *, period_s: float) -> None:
        self._source, self._deliver, self._period_s = source, deliver, period_s
        self._wake = threading.Event()
        self._closed = False
        self._paused = False
        self._view: ViewName = "overview"
        self._component = ""
        self._extra = Extra()
        self._events: list[Event] = []
        self._lines: deque[str] = deque(maxlen=_LOG_LINES)
        self._next_extra = 0.0
        # A daemon: a host that does not answer must not keep the viewer from leaving.
        self._thread = threading.Thread(target=self._look, name="tianjictl-feed", daemon=True)

    def start(self) -> None:
        """Begin looking."""
        self._thread.start()

    def close(self) -> None:
        """Look no more; does not wait for an answer that is outstanding."""
        self._closed = True
        self._wake.set()

    def pause(self, paused: bool) -> None:
        """Whether to stand still."""
        self._paused = paused
        self._wake.set()

    def turn_to(self, view: ViewName, component: str) -> None:
        """What is looked at: some views need more than the picture."""
        if (view, component) != (self._view, self._component):
            self._view, self._component = view, component
            self._next_extra = 0.0
            self._wake.set()

    def _look(self) -> None:
        due = 0.0
        while not self._closed:
            now = time.monotonic()
            if not self._paused and now >= due:
                due = max(due + self._period_s, now)
                self._once(now)
            elif self._next_extra == 0.0:
                self._once(now)
            wait_s = None if self._paused else max(0.0, due - time.monotonic())
            self._wake.wait(wait_s)
            self._wake.clear()

    def _once(self, now: float) -> None:
        picture = self._source.picture()
        if now >= self._next_extra:
            view = self._view
            self._next_extra = now + (_CHECKPOINTS_EVERY_S if view == "checkpoints" else _EXTRA_EVERY_S)
            try:
                self._extra = self._read(view)
            except TianjiError as error:
                self._extra = replace(self._extra, problem=error.message)
        if not self._closed:
            self._deliver(picture, self._extra)

    def _read(self, view: ViewName) -> Extra:
        extra = replace(self._extra, problem="")
        if view == "plan":
            return replace(extra, plan=self._source.plan())
        if view == "checkpoints":
            return replace(extra, checkpoints=tuple(self._source.checkpoints()))
        if view == "events":
            more = self._source.events()
            self._events += more
            return replace(extra, events=tuple(self._events)) if more or extra.events is None else extra
        if view == "logs" and self._component:
            afresh = extra.log_of != self._component
            if afresh:
                self._lines.clear()
            more_lines = self._source.log(self._component, afresh=afresh)
            self._lines.extend(more_lines)
            return replace(extra, log_of=self._component, log=tuple(self._lines)) if more_lines or afresh else extra
        return extra
