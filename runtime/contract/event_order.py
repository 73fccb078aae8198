"""The order in which events happened, which is not always that in which they were written down. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from runtime.contract.view import Event


def in_order(events: Iterable[Event], head: str | None) -> list[Event]:
    """Oldest first. `events` as they stand in the log; `head`: the coordinator's host, none: all is on one machine.

    What an agent tells is written down when it is heard of: after a coordinator that has died and been replaced has
    written that it goes on, though the agent had noticed first. Times are compared only where they are by one clock,
    that of the head; what happened elsewhere stays where it was heard of. No event comes before its cause.
    """
    moments: dict[str, datetime] = {}
    newest: datetime | None = None
    placed = []
    for event in events:
        moment = event.time
        if head is None or event.host in (None, head):
            newest = moment if newest is None else max(newest, moment)
        elif newest is not None:
            moment = newest
        if event.cause in moments:
            moment = max(moment, moments[event.cause])
        moments[event.id] = moment
        placed.append((moment, event))
    return [event for _, event in sorted(placed, key=lambda pair: pair[0])]
