"""The loop around a component: waiting, signals, heartbeat, orphanhood, exit report. Knows nothing of learning.

SIGUSR2 asks for a hand-over: the component ends in good order between two ticks. Its successor, if there is to be one,
goes on over the same memory. The signal is held back from before the fork until there is a handler for it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.components.base import Progress
from runtime.contract.files import write_whole
from runtime.contract.model import View
from runtime.contract.states import PHASES, Phase

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

    from runtime.components.base import Component
    from runtime.memory.block import StatsBlock
    from runtime.memory.control import ControlBlock

#: Longest sleep of an idle component: how late it can notice an order, and how often an idle one beats.
IDLE_TIMEOUT_MS = 50
_EVENTFD_BYTES = 8
HAND_OVER = signal.SIGUSR2
REPLACED = "replaced"  #: the reason of a life that ended for a hand-over


class TerminatedError(Exception):
    """Somebody other than the agent told this component to leave: it is missed, so it counts as a death."""


class ExitReport(View):
    """Why a component left; written by itself, read by its agent."""

    component: str
    attempt: int
    code: int
    reason: str
    traceback: str | None = None


@dataclass(slots=True)
class Driver:
    """Runs one component until it is done, told to stop, or left alone in the world."""

    component: Component
    block: StatsBlock
    control: ControlBlock
    lifeline: int  #: read end of a pipe whose write end only agent and forkserver hold: readable means both are gone
    _asked_to_leave: str | None = None
    _asked_to_hand_over: bool = False

    def run(self) -> str:
        """Returns why it ended, in words; an error of the component comes out as its own exception."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(HAND_OVER, self._on_hand_over)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (HAND_OVER,))
        poller = self._poller()
        try:
            self._enter(Phase.INIT)
            self.component.start()
            self._enter(Phase.STEADY)
            reason = self._loop(poller)
            self._enter(Phase.STOPPING)
            return reason
        finally:
            self.component.stop()
            self.block.phase = PHASES.index(Phase.DONE)

    def _enter(self, phase: Phase) -> None:
        self.block.phase = PHASES.index(phase)
        self.block.beat()

    def _loop(self, poller: select.poll) -> str:
        component, block, control = self.component, self.block, self.control
        while True:
            block.beat()
            if control.command:
                return "told to stop"
            if self._asked_to_leave:
                raise TerminatedError(self._asked_to_leave)
            if self._asked_to_hand_over:
                return REPLACED
            progress = component.tick()
            if progress is Progress.WORKED:
                continue
            if progress is Progress.DONE:
                return "finished"
            for descriptor, _ in poller.poll(IDLE_TIMEOUT_MS):
                if descriptor == self.lifeline:
                    return "orphaned: agent and forkserver are gone"
                with contextlib.suppress(BlockingIOError):
                    os.read(descriptor, _EVENTFD_BYTES)

    def _poller(self) -> select.poll:
        poller = select.poll()
        for descriptor in self.component.waits():
            poller.register(descriptor, select.POLLIN)
        poller.register(self.lifeline, select.POLLIN)
        return poller

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._asked_to_leave = f"received {signal.Signals(number).name}"

    def _on_hand_over(self, _number: int, _frame: FrameType | None) -> None:
        self._asked_to_hand_over = True


def report_exit(path: Path, component: str, attempt: int, outcome: str | BaseException) -> int:
    """Write the exit report and return the exit code: 0 for an orderly end, 1 for an error."""
    if isinstance(outcome, str):
        report = ExitReport(component=component, attempt=attempt, code=0, reason=outcome)
    else:
        report = ExitReport(
            component=component,
            attempt=attempt,
            code=1,
            reason=f"{type(outcome).__name__}: {outcome}",
            traceback="".join(traceback.format_exception(outcome)),
        )
    write_whole(path, report.model_dump_json(indent=1))
    return report.code
