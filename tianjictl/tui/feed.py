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
    """Looks every `period_s` and hands over what it saw; both callbacks are called from the feed's thread.

    Should looking itself fail, `failed` hears of it and the feed is over.
    """

    def __init__(
        self,
        source: Source,
        deliver: Callable[[Picture, Extra], None],
        failed: Callable[[Exception], None],
        *,
        period_s: float,
    ) -> None:
        self._source, self._deliver, self._failed, self._period_s = source, deliver, failed, period_s
        self._wake = threading.Event()
        self._closed = False
        self._paused = False
        self._view: ViewName = "overview"
        self._component = ""
        self._picture: Picture | None = None
        self._extra = Extra()
        self._events: list[Event] = []
        self._lines: deque[str] = deque(maxlen=_LOG_LINES)
        self._next_extra = 0.0
        self._next_checkpoints = 0.0  #: each look starts a process
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
        """Whether the picture stands still; what a view asks for is read all the same."""
        if paused != self._paused:
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
        try:
            while not self._closed:
                now = time.monotonic()
                turned = self._next_extra == 0.0
                if now >= due and not self._paused:
                    due = max(due + self._period_s, now)
                    self._picture = self._source.picture()
                elif not turned:
                    self._wake.wait(None if self._paused else due - now)
                    self._wake.clear()
                    continue
                self._hand_over(now)
        except Exception as error:  # a fault of the viewer's own: its thread must not die in silence
            if not self._closed:
                self._failed(error)

    def _hand_over(self, now: float) -> None:
        if now >= self._next_extra:
            self._next_extra = now + _EXTRA_EVERY_S  # before the view is looked at: a turn meanwhile sets it back
            try:
                self._extra = self._read(self._view, now)
            except TianjiError as error:
                self._extra = replace(self._extra, problem=error.message)
        if self._picture is not None and not self._closed:
            self._deliver(self._picture, self._extra)

    def _read(self, view: ViewName, now: float) -> Extra:
        extra = replace(self._extra, problem="")
        if view == "plan":
            return replace(extra, plan=self._source.plan())
        if view == "checkpoints" and now >= self._next_checkpoints:
            self._next_checkpoints = now + _CHECKPOINTS_EVERY_S
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
