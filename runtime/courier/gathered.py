"""Wake-ups gathered: whoever waits at the other side of a ring is woken once for all that moved in one go."""

from __future__ import annotations

from runtime.memory.eventfd import EventFd


class Gathered(EventFd):
    """A second hold on somebody else's event. Signals wait for `pass_on`: waking a process costs more than a slot."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._due = False

    def signal(self) -> None:
        """Take note."""
        self._due = True

    def pass_on(self) -> None:
        """Signal, if there was reason to since the last time."""
        if self._due:
            self._due = False
            super().signal()
