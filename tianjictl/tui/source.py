"""A real run as the viewer reads it: through the same functions as the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.plan import Plan
from runtime.contract.states import TERMINAL_RUN_STATES
from tianjictl.errors import TianjiError
from tianjictl.runs.access import head_place
from tianjictl.runs.checkpoints import list_checkpoints
from tianjictl.runs.client import Picture, observe, read_from
from tianjictl.runs.event_log import EventLog
from tianjictl.runs.logfiles import LogReader
from tianjictl.tui.asking import Asking

if TYPE_CHECKING:
    from runtime.contract.view import Event
    from tianjictl.runs.checkpoints import CheckpointView
    from tianjictl.runs.registry import Run

_FIRST_LINES = 500
_ANSWERED_WITHIN_S = 1.0  #: over the connection that is kept; who is slower is asked once more, with more patience


class RunSource:
    """Reads one run. All of it is called from one thread."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._events = EventLog(run)
        self._reader: LogReader | None = None
        self._unheard = ""
        self._asking = Asking(run.paths.control_socket, _ANSWERED_WITHIN_S)
        self._is_heard = head_place(run) is None  #: over a connection that is kept: the coordinator is on this machine

    def picture(self) -> Picture:
        """The coordinator's word, or what is stored, marked as old."""
        view = self._asking.view() if self._is_heard else None
        if view is not None:
            return Picture(view, 0.0, live=True, ended=view.state in TERMINAL_RUN_STATES)
        # With all the care that a run takes which has ended, is silent or elsewhere, until it answers again.
        found = observe(self._run)
        self._is_heard = found.live and not found.ended and head_place(self._run) is None
        return found

    def plan(self) -> Plan:
        """The newest plan, from where the head is."""
        data = read_from(self._run, self._run.paths.plan)
        try:
            return Plan.model_validate_json(data or b"")
        except ValidationError as error:
            raise TianjiError(f"the plan of {self._run.run_id} cannot be read") from error

    def checkpoints(self) -> list[CheckpointView]:
        """All checkpoints, newest first."""
        return list_checkpoints(self._run)

    def events(self) -> list[Event]:
        """What came since the last call."""
        return list(self._events.more())

    def log(self, component: str, *, afresh: bool) -> list[str]:
        """New lines of a component, of all its lives; TianjiError where its host cannot be asked."""
        if afresh or self._reader is None:
            self._reader = LogReader(self._run, chosen=(component,), lost=self._lost)
        self._unheard = ""
        pieces = self._reader.more(_FIRST_LINES)
        if self._unheard and not pieces:
            raise TianjiError(self._unheard)
        return [line for piece in pieces for line in piece.lines]

    def _lost(self, why: str) -> None:
        self._unheard = why
