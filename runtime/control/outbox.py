"""What an agent tells its coordinator once each: events and finished episodes. Kept until they were sent."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from runtime.contract.view import Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime.contract.messages import EpisodeReport

MOST_KEPT = 10_000  #: of either: a coordinator that is away for long misses the oldest
MOST_AT_ONCE = 2_000  #: so that one message stays small


class Outbox:
    """Numbers events; their ids are unique among all agents of a run: `<node>-<life of the agent>-<number>`."""

    def __init__(self, node: str, instance: str) -> None:
        self._node = node
        self._prefix = f"{node}-{instance[:8]}"
        self._number = 0
        self._events: deque[Event] = deque(maxlen=MOST_KEPT)
        self._episodes: deque[EpisodeReport] = deque(maxlen=MOST_KEPT)

    def log(self, kind: str, message: str, cause: str | None = None, component: str | None = None) -> Event:
        """One line for the event log."""
        self._number += 1
        event = Event(
            id=f"{self._prefix}-{self._number}",
            time=datetime.now(UTC),
            kind=kind,
            message=message,
            component=component,
            host=self._node,
            cause=cause,
        )
        self._events.append(event)
        return event

    def add(self, episodes: Iterable[EpisodeReport]) -> None:
        """Episodes that have ended."""
        self._episodes.extend(episodes)

    def peek(self) -> tuple[tuple[Event, ...], tuple[EpisodeReport, ...]]:
        """The oldest of both, as many as one message takes."""
        return tuple(self._events)[:MOST_AT_ONCE], tuple(self._episodes)[:MOST_AT_ONCE]

    def sent(self, events: int, episodes: int) -> None:
        """So many of the oldest have left."""
        for _ in range(events):
            self._events.popleft()
        for _ in range(episodes):
            self._episodes.popleft()
