"""What a link needs from whatever carries its bytes: ordered messages with tags, sent and received without waiting."""

from __future__ import annotations

from typing import Protocol


class LinkLostError(Exception):
    """The peer, or the way to it, is gone. What was under way may or may not have arrived."""


class StuckTransferError(Exception):
    """A receive into shared memory could be neither finished nor cancelled: only the end of the process ends it."""


class Transfer(Protocol):
    """One message under way."""

    def done(self) -> int | None:
        """Bytes moved, or None while under way. Raises LinkLostError."""


class Channel(Protocol):
    """Both directions of one connection. Messages of one tag arrive in the order in which they were sent."""

    def send(self, data: memoryview, tag: int) -> Transfer:
        """Begin to send; `data` must keep its bytes until the transfer is done. Raises LinkLostError."""

    def receive(self, into: memoryview, tag: int) -> Transfer:
        """Post a receive of at most `len(into)` bytes. Raises LinkLostError."""

    def withdraw(self, mirror: int) -> None:
        """Give up the receives that are posted for one mirror's lanes. Raises StuckTransferError."""

    def close(self) -> None:
        """Give up every receive that is posted, so that nothing is written any more. Raises StuckTransferError."""
