"""A wake-up between processes: a kernel counter that one side raises and the other waits for with poll."""

from __future__ import annotations

import os
import select


class EventFd:
    """Owns a non-blocking eventfd. A signal sent before the wait began is not lost: the descriptor stays readable."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    @classmethod
    def create(cls) -> EventFd:
        """A new one, closed on exec unless passed on. Raises OSError when descriptors have run out."""
        return cls(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))

    def signal(self) -> None:
        """Make the descriptor readable. Never blocks."""
        try:
            os.eventfd_write(self._fd, 1)
        except BlockingIOError:
            return  # the counter is at its maximum, so the descriptor is readable already

    def drain(self) -> None:
        """Make it unreadable until the next signal. Look for work after draining, not before: else a signal is lost."""
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            return  # nothing was signalled

    def wait(self, timeout_s: float) -> bool:
        """Sleep in the kernel until signalled or `timeout_s` has passed; True if signalled. Does not drain."""
        return bool(self._poll.poll(timeout_s * 1000.0))

    def fileno(self) -> int:
        """The descriptor, for poll and for passing to another process."""
        return self._fd

    def close(self) -> None:
        """Give the descriptor back. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
