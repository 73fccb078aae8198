"""A run's event log, wherever it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.event_order import in_order
from runtime.contract.view import Event
from tianjictl.runs.client import read_from

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tianjictl.runs.registry import Run


class EventLog:
    """Reads a run's event log as it grows; a half-written last line waits for its end."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._position = 0
        self.unreadable = 0  #: lines that are no event

    def more(self) -> Iterator[Event]:
        """The events that came since the last call, oldest first."""
        return iter(in_order(self._read(), self._run.head.name if self._run.head else None))

    def _read(self) -> Iterator[Event]:
        data = read_from(self._run, self._run.paths.events, self._position)
        if data is None:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        for line in whole.splitlines():
            try:
                yield Event.model_validate_json(line)
            except ValidationError:
                self.unreadable += 1
