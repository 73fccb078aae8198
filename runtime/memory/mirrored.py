"""The ends of rings and boards that are mirrored over a link: what a copier between machines needs, nothing more.

A mirrored ring is two rings of one layout. `MirrorConsumer` is the consumer of the local one and gives the raw bytes of
committed slots; `MirrorProducer` is the producer of the remote one and gives the raw bytes of several free slots at
once, so that they can be filled while none is committed. Their sequence numbers differ when either ring is younger than
the other; the `Origin` in the remote ring's header says by how much, and survives whoever wrote it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from runtime.memory import ring
from runtime.memory.board import PUBLISHED, BoardReader, BoardWriter
from runtime.memory.board import SLOT_HEADER_BYTES as BOARD_SLOT_HEADER_BYTES
from runtime.memory.eventfd import EventFd
from runtime.memory.fence import fence
from runtime.memory.ring import SLOT_HEADER_BYTES, Consumer, Producer, RingSpec
from runtime.memory.segment import WORD, Segment

HEAD_BYTES = 3 * WORD  #: the first bytes of a slot header: sequence, samples, marker

_EPOCH = 2 * ring.LINE // WORD + 2  # on the consumer's line: it alone writes it
_CHOSEN = ring.LINE // WORD + 2  # on the producer's line: which of the two records holds, 1 or 2; 0 for none
_RECORDS = (0, 3 * ring.LINE // WORD, 4 * ring.LINE // WORD)


@dataclass(frozen=True)
class Origin:
    """Slot `first_local` of the remote ring is slot `first_upstream` of the ring that is known by `epoch`."""

    epoch: int
    first_local: int
    first_upstream: int

    def upstream(self, local: int) -> int:
        """The local ring's number for a slot of the remote one."""
        return local - self.first_local + self.first_upstream

    def local(self, upstream: int) -> int:
        """The remote ring's number for a slot of the local one."""
        return upstream - self.first_upstream + self.first_local


@dataclass(frozen=True)
class Disposition:
    """What became of a slot's samples."""

    consumed: int
    dropped_stale: int
    dropped_other: int


class MirrorConsumer(Consumer):
    """The consumer's end of a ring whose slots are copied elsewhere, and released when they are released there."""

    def __init__(self, segment: Segment, spec: RingSpec, *, data_ready: EventFd, space_ready: EventFd) -> None:
        super().__init__(segment, spec, data_ready=data_ready, space_ready=space_ready)
        self._memory = segment.memory
        if self._words[_EPOCH] == 0:
            self._words[_EPOCH] = secrets.randbits(62) + 1

    @property
    def epoch(self) -> int:
        """A random number that this ring got when its first mirror attached, and keeps; never 0."""
        return self._words[_EPOCH]

    @property
    def tail(self) -> int:
        """Slots released since the ring was formatted."""
        return self._tail

    @property
    def head(self) -> int:
        """Slots committed since the ring was formatted."""
        self._look()
        return self._head

    def slot_head(self, sequence: int) -> memoryview:
        """The HEAD_BYTES of a committed, unreleased slot."""
        start = self.spec.slot_at(sequence)
        return self._memory[start : start + HEAD_BYTES]

    def payload(self, sequence: int) -> memoryview:
        """The bytes of a committed, unreleased slot's arrays, padding included: `layout.nbytes`."""
        start = self.spec.slot_at(sequence) + SLOT_HEADER_BYTES
        return self._memory[start : start + self.spec.layout.nbytes]

    def stretch(self, sequence: int, count: int) -> memoryview:
        """Up to `count` committed, unreleased slots with their headers, as they lie: fewer at the ring's end."""
        count = min(count, self.spec.slots - sequence % self.spec.slots)
        start = self.spec.slot_at(sequence)
        return self._memory[start : start + count * self.spec.stride]


class MirrorProducer(Producer):
    """The producer's end of a ring that is filled from elsewhere, several slots ahead of what is committed."""

    def __init__(self, segment: Segment, spec: RingSpec, *, data_ready: EventFd, space_ready: EventFd) -> None:
        super().__init__(segment, spec, data_ready=data_ready, space_ready=space_ready)
        self._memory = segment.memory

    @property
    def head(self) -> int:
        """Slots committed since the ring was formatted."""
        return self._head

    @property
    def tail(self) -> int:
        """Slots that the consumer has released since the ring was formatted."""
        self._tail = self._words[ring.TAIL]
        fence()  # the consumer's totals and its last reads of the slots precede what we do next
        return self._tail

    def payload(self, sequence: int) -> memoryview:
        """The bytes of slot `sequence`, to be filled. Only for head ≤ sequence < tail + slots; else ValueError."""
        if not self._head <= sequence < self._tail + self.spec.slots:
            raise ValueError(f"ring {self.spec.name!r}: slot {sequence} is not free")
        start = self.spec.slot_at(sequence) + SLOT_HEADER_BYTES
        return self._memory[start : start + self.spec.layout.nbytes]

    def disposition(self, sequence: int) -> Disposition:
        """What became of the samples of a released slot.

        Only while slot `sequence` - 1 + slots is not released: its totals stand where those of `sequence` - 1 stood.
        """
        now = self._totals(sequence)
        before = self._totals(sequence - 1) if sequence else (0, 0, 0)
        return Disposition(*(later - earlier for later, earlier in zip(now, before, strict=True)))

    def _totals(self, sequence: int) -> tuple[int, int, int]:
        words = self._slots[sequence % self.spec.slots]._words
        return words[ring.CONSUMED], words[ring.STALE], words[ring.OTHER]

    @property
    def origin(self) -> Origin | None:
        """Where the slots come from, as a predecessor or this end recorded it; None in a ring that never was told."""
        chosen = self._words[_CHOSEN]
        fence()
        at = _RECORDS[chosen]
        return Origin(*self._words[at : at + 3]) if chosen else None

    def adopt(self, epoch: int, first_upstream: int) -> Origin:
        """From the next slot on, copy the ring known by `epoch` from slot `first_upstream`. One store makes it so."""
        chosen = 2 if self._words[_CHOSEN] == 1 else 1
        at = _RECORDS[chosen]
        self._words[at], self._words[at + 1], self._words[at + 2] = epoch, self._head, first_upstream
        fence()  # the record is whole before it is chosen
        self._words[_CHOSEN] = chosen
        return Origin(epoch, self._head, first_upstream)


class MirrorBoardReader(BoardReader):
    """A board's reader that tells publications apart, also those of one version."""

    @property
    def publication(self) -> int:
        """Number of the newest publication, 0 if there is none. One load."""
        return self._words[PUBLISHED]

    @property
    def taken(self) -> int:
        """Number of the publication that was read last, 0 before the first."""
        return self._seen


class MirrorBoardWriter(BoardWriter):
    """A board's writer that fills a publication as bytes."""

    def payload(self) -> memoryview:
        """The bytes of the place that `begin` gives, to be filled: `layout.nbytes`."""
        self.begin()
        start = self.spec.slot_at(self._published) + BOARD_SLOT_HEADER_BYTES
        return self._memory[start : start + self.spec.layout.nbytes]
