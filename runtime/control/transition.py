"""What both state machines share: the error that tells the story of how an impossible event came about."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: So many transitions a subject remembers.
HISTORY_LENGTH = 20


class IllegalTransition(Exception):  # noqa: N818 - it names what happened, as the tables do
    """An event that cannot happen in this state; the message holds the newest history of the subject."""

    def __init__(self, subject: str, state: str, reason: str, event: object, history: Sequence[str]) -> None:
        story = "\n  ".join(history) or "(no history)"
        super().__init__(f"{subject}: {event} while {state} ({reason})\n  {story}")


def remember(history: tuple[str, ...], line: str) -> tuple[str, ...]:
    """`history` with one more line, and only the newest of them."""
    return (*history, line)[-HISTORY_LENGTH:]
