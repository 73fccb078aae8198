"""The run's event log: what happened, when, and because of what. One JSON line each, ids `ev-1`, `ev-2`, …

Ids go on over restarts of the coordinator and over resumes, so that an id names one event of the run for ever.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.event_order import in_order
from runtime.contract.files import append_line
from runtime.contract.view import Event

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

log = logging.getLogger(__name__)

NEWEST = 20  #: events shown in the RunView
_TAIL_BYTES = 64 << 10
_TRANSLATIONS = 512
#: Last words of kinds that the log tells as warnings.
_TROUBLE = frozenset({"failed", "lost", "died", "frozen", "unwritten", "unpruned"})


class EventLog:
    """Appends to `path`; `clock` gives the wall time. A full disk costs the line, not the run."""

    def __init__(self, path: Path, clock: Callable[[], datetime], head: str | None = None) -> None:
        """`head`: the host of this log, whose clock is that of what is written here."""
        self._path = path
        self._head = head
        self._clock = clock
        self._newest: deque[Event] = deque(_read_tail(path), maxlen=NEWEST)
        self._count = int(self._newest[-1].id.removeprefix("ev-")) if self._newest else 0
        self._own_ids: OrderedDict[tuple[str, str], str] = OrderedDict()  # (node, its id) → ours
        self._of_component: dict[str, str] = {}

    @property
    def newest(self) -> tuple[Event, ...]:
        """The newest events, oldest first."""
        return tuple(in_order(self._newest, self._head))

    def of_component(self, name: str) -> str | None:
        """Id of the newest event that tells of this component."""
        return self._of_component.get(name)

    def write(
        self,
        kind: str,
        message: str,
        *,
        cause: str | None = None,
        component: str | None = None,
        host: str | None = None,
    ) -> str:
        """Append one event that happens now; returns its id."""
        return self._append(self._clock(), kind, message, component=component, host=host, cause=cause)

    def adopt(self, event: Event, node: str) -> str:
        """Append an event that an agent tells of; its own ids in `id` and `cause` become ours. Returns the new id."""
        cause = self._own_ids.get((node, event.cause), event.cause) if event.cause else None
        new = self._append(event.time, event.kind, event.message, component=event.component, host=node, cause=cause)
        self._own_ids[node, event.id] = new
        while len(self._own_ids) > _TRANSLATIONS:
            self._own_ids.popitem(last=False)
        return new

    def _append(
        self, time: datetime, kind: str, message: str, *, component: str | None, host: str | None, cause: str | None
    ) -> str:
        self._count += 1
        event = Event(
            id=f"ev-{self._count}", time=time, kind=kind, message=message, component=component, host=host, cause=cause
        )
        self._newest.append(event)
        if component is not None:
            self._of_component[component] = event.id
        level = logging.WARNING if kind.rpartition(".")[2] in _TROUBLE else logging.INFO
        named = {"id": event.id, "component": component, "cause": cause}
        words = " ".join(f"{key}={value}" for key, value in named.items() if value is not None)
        log.log(level, "%s %s %s", kind, words, message)
        try:
            append_line(self._path, event.model_dump_json())
        except OSError as error:
            log.error("event.unwritten id=%s error=%s", event.id, error)
        return event.id


def _read_tail(path: Path) -> list[Event]:
    """The last events of an existing log; a line that was cut off in mid-write is skipped, and mended by a new line."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            tail = file.read()
    except FileNotFoundError:
        return []
    if tail and not tail.endswith(b"\n"):
        append_line(path, "")
    events = []
    for line in tail.splitlines()[-NEWEST - 1 :]:
        try:
            events.append(Event.model_validate_json(line))
        except ValidationError:
            log.warning("event.unreadable line=%r", line[:80])
    return events
