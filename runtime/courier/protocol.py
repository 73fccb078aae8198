"""What two ends of a mirrored ring say to each other, as pure state: no transport, no clock, no memory.

Slots are counted in the numbers of the sending side's ring ("upstream"). Per join of two couriers:

    sender    HELLO(epoch, tail)            which ring this is, and the oldest slot that it still holds
    receiver  WELCOME(received, limit)      slots below `received` are there; slots below `limit` have a place
    sender    the slots received … limit-1, in order
    receiver  ACK(received, limit, first, dispositions)    slots from `first` on are released over there, and how

A sent slot stays in the sender's ring until it is acknowledged, so whoever dies, the next join begins with what both
rings themselves say: committed slots that did not arrive are sent again, those that did are not, and acknowledgements
that were lost are repeated. The receiver reads a slot's disposition as a difference of running totals; the place of the
older total is used again `slots` later, so the sender never runs further ahead of its oldest slot than `slots` - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from runtime.memory.mirrored import Disposition, Origin


class ProtocolError(Exception):
    """The peer said something that cannot be: the two ends do not mean the same ring, or one has a fault."""


class Kind(IntEnum):
    """What a control frame is about."""

    ALIVE = 0
    HELLO = 1
    WELCOME = 2
    ACK = 3
    BOARD_HELLO = 4
    BOARD_WELCOME = 5
    BOARD_ACK = 6
    CHALLENGE = 7
    PROOF = 8
    BYE = 9


@dataclass(frozen=True)
class Frame:
    """One control message: its kind, the mirror it is for (0: the link itself) and its numbers."""

    kind: Kind
    mirror: int
    values: tuple[int, ...] = ()


class SendWindow:
    """The sending end: what may be sent, what has been, what is released."""

    def __init__(self, tail: int) -> None:
        self.released = tail  #: slots below were acknowledged, in this join or before
        self.sent = tail  #: slots below are at the receiver or on their way
        self._limit = tail
        self._slots = 0  # of the receiver's ring; 0 before its welcome

    @property
    def welcomed(self) -> bool:
        """The receiver has answered."""
        return self._slots > 0

    def welcome(self, received: int, limit: int, slots: int) -> None:
        """The receiver's answer. ProtocolError for impossible numbers."""
        if self.welcomed or received < self.released or limit < received or slots < 2:
            raise ProtocolError(f"welcome with {received} received, limit {limit}, {slots} slots at {self}")
        self.sent, self._limit, self._slots = received, limit, slots

    def sendable(self, head: int, tail: int) -> range:
        """Slots to send now, of a ring with `head` committed and `tail` released slots."""
        if not self.welcomed:
            return range(0)
        if self.sent > head:
            raise ProtocolError(f"the receiver has {self.sent} slots of a ring with {head}")
        return range(self.sent, min(head, self._limit, tail + self._slots - 1))

    def mark_sent(self, count: int) -> None:
        """`count` more slots are on their way."""
        self.sent += count

    def acknowledge(self, limit: int, first: int, dispositions: Sequence[Disposition]) -> Sequence[Disposition]:
        """An acknowledgement; returns those that are new, oldest first. One that was heard before does no harm."""
        if first > self.released or first + len(dispositions) > self.sent:
            raise ProtocolError(f"slots from {first} acknowledged, {len(dispositions)} of them, at {self}")
        self._limit = max(self._limit, limit)
        new = dispositions[self.released - first :] if first + len(dispositions) > self.released else ()
        self.released += len(new)
        return new

    def __repr__(self) -> str:
        return f"released {self.released}, sent {self.sent}, limit {self._limit}"


class ReceiveWindow:
    """The receiving end, in upstream numbers."""

    def __init__(self, origin: Origin, head: int, acknowledged: int) -> None:
        self.origin = origin
        self.received = origin.upstream(head)  #: slots below are committed here
        self.acknowledged = acknowledged  #: slots below were acknowledged in this join, or need not be

    @classmethod
    def joined(cls, recorded: Origin | None, epoch: int, tail: int, head: int) -> ReceiveWindow | None:
        """Go on with a ring that the record knows; None if it is another ring, which must be adopted first."""
        if recorded is None or recorded.epoch != epoch:
            return None
        window = cls(recorded, head, tail)
        if tail > window.received:
            raise ProtocolError(f"the sender has released {tail} slots of which only {window.received} came here")
        return window

    def limit(self, free_until: int) -> int:
        """Upstream number of the first slot that has no place, where `free_until` is the local one."""
        return self.origin.upstream(free_until)

    def accept(self, sequence: int) -> bool:
        """True for the slot that comes next, False for one that is here already. ProtocolError for a gap."""
        if sequence > self.received:
            raise ProtocolError(f"slot {sequence} came, slot {self.received} was next")
        if sequence < self.received:
            return False
        self.received += 1
        return True

    def to_acknowledge(self, tail: int, most: int) -> range:
        """Upstream slots that are released here and not acknowledged yet, at most `most`, where `tail` is local."""
        released = self.origin.upstream(tail)
        return range(self.acknowledged, min(released, self.acknowledged + most))
