"""A pair of channels within one process, as strict as MPI: bytes move when the receiver looks, not when they are sent.

So whoever writes again to memory that is still being sent, or grants a place that is not free, is found out.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from runtime.courier.channel import LinkLostError
from runtime.courier.port import mirror_of


@dataclass
class Sent:
    """A message on its way; `arrived` once the receiver has its bytes."""

    data: memoryview
    wire: Wire
    arrived: bool = False

    def done(self) -> int | None:
        self.wire.check()
        return len(self.data) if self.arrived else None


@dataclass
class Posted:
    """A receive; matched with messages of its tag in the order of posting."""

    into: memoryview
    end: MemoryChannel
    tag: int
    nbytes: int | None = None

    def done(self) -> int | None:
        if self.nbytes is None:
            self.end.wire.check()
            self.end.match(self.tag)
        return self.nbytes


@dataclass
class Wire:
    """What both ends share."""

    cut: bool = False
    delivered: int = 0
    cut_after: int | None = None  #: messages after which the wire breaks by itself

    def check(self) -> None:
        if self.cut_after is not None and self.delivered >= self.cut_after:
            self.cut = True
        if self.cut:
            raise LinkLostError("the wire is cut")


@dataclass
class MemoryChannel:
    """One end."""

    wire: Wire
    incoming: dict[int, deque[Sent]]
    outgoing: dict[int, deque[Sent]]
    posted: dict[int, deque[Posted]] = field(default_factory=dict)
    sent_bytes: int = 0

    def send(self, data: memoryview, tag: int) -> Sent:
        self.wire.check()
        self.sent_bytes += len(data)
        message = Sent(data.cast("B"), self.wire)
        self.outgoing.setdefault(tag, deque()).append(message)
        return message

    def receive(self, into: memoryview, tag: int) -> Posted:
        self.wire.check()
        transfer = Posted(into, self, tag)
        self.posted.setdefault(tag, deque()).append(transfer)
        return transfer

    def match(self, tag: int) -> None:
        arriving, posted = self.incoming.get(tag, deque()), self.posted.get(tag, deque())
        while arriving and posted and not self.wire.cut:
            message, place = arriving.popleft(), posted.popleft()
            assert len(message.data) <= len(place.into), "message truncated"
            place.into[: len(message.data)] = message.data
            place.nbytes = len(message.data)
            message.arrived = True
            self.wire.delivered += 1
            if self.wire.cut_after is not None and self.wire.delivered >= self.wire.cut_after:
                self.wire.cut = True

    def withdraw(self, mirror: int) -> None:
        for tag in [tag for tag in self.posted if mirror_of(tag) == mirror]:
            del self.posted[tag]

    def close(self) -> None:
        self.posted.clear()


def channel_pair(cut_after: int | None = None) -> tuple[MemoryChannel, MemoryChannel]:
    """Two ends of a fresh wire."""
    wire, there, back = Wire(cut_after=cut_after), {}, {}
    return MemoryChannel(wire, there, back), MemoryChannel(wire, back, there)
