"""The ring: bounded, one producer, one consumer, slots of arrays that are filled and read in place.

Memory: a header, then `slots` slots, each a slot header of two cache lines followed by the payload of the layout.

    header   magic, form, slots, stride, digest | head, attempt (producer's line) | tail, attempt (consumer's line)
    slot     sequence, samples, marker, produced_total (producer's line) | consumed_total, stale_total, other_total

`head` counts committed slots and `tail` released ones, both since the ring was formatted. Slot k lives in place k mod
slots. Nothing is visible before `head` moves and nothing is given back before `tail` moves, and each is one aligned
8-byte store; so a process that dies between two instructions leaves the ring as it was before the slot, or as it is
after it. The running totals stand in the slot that was committed or released last. They become true in the same store
that moves `head` or `tail`, which is why the ledger balances at every instant.

Order, and the fence that gives it (`fence.py` says why it is one):

    producer   write payload and slot words → fence → store head
    consumer   load head → fence → read payload
    consumer   read payload, write totals → fence → store tail
    producer   load tail → fence → overwrite payload
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.memory.eventfd import EventFd
from runtime.memory.fence import fence
from runtime.memory.layout import Layout, align, poison
from runtime.memory.segment import WORD, Segment

_MAGIC = 0x52494E47_544A0001  # "RING", ours, form 1
LINE = 128  # bytes between words of different owners: aarch64 and the x86 prefetcher both work on pairs of 64
_HEADER_BYTES = 4096  # one page, so that payloads of page-sized layouts stay on page boundaries

_MAGIC_WORD, _SLOTS_WORD, _STRIDE_WORD, _DIGEST_WORD = range(4)
_HEAD, _PRODUCER_ATTEMPT = LINE // WORD, LINE // WORD + 1
TAIL, _CONSUMER_ATTEMPT = 2 * LINE // WORD, 2 * LINE // WORD + 1

SLOT_HEADER_BYTES = 2 * LINE  #: before the payload: the producer's line, the consumer's line
_SEQUENCE, _SAMPLES, _MARKER, _PRODUCED = range(4)
CONSUMED, STALE, OTHER = range(LINE // WORD, LINE // WORD + 3)


@dataclass(frozen=True)
class RingSpec:
    """Name, slot layout and depth of a ring. At least two slots: one's totals are read while another's are written."""

    name: str
    layout: Layout
    slots: int

    def __post_init__(self) -> None:
        if self.slots < 2:
            raise ValueError(f"ring {self.name!r} needs at least 2 slots, not {self.slots}")

    @property
    def stride(self) -> int:
        """Bytes from one slot to the next."""
        return align(SLOT_HEADER_BYTES + self.layout.nbytes, LINE)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole ring."""
        return _HEADER_BYTES + self.slots * self.stride

    def slot_at(self, sequence: int) -> int:
        """Byte offset of slot `sequence`'s header within the ring; the payload is SLOT_HEADER_BYTES further on."""
        return _HEADER_BYTES + sequence % self.slots * self.stride


class Slot:
    """One place of a ring. Made once per place and used again each time round; valid until commit or release."""

    __slots__ = ("_words", "fields")

    def __init__(self, segment: Segment, spec: RingSpec, place: int) -> None:
        start = _HEADER_BYTES + place * spec.stride
        self._words = segment.words(start, SLOT_HEADER_BYTES // WORD)
        self.fields = spec.layout.views(segment.memory, start + SLOT_HEADER_BYTES)  #: the arrays, in place

    @property
    def samples(self) -> int:
        """How many samples the producer says are in here."""
        return self._words[_SAMPLES]

    @property
    def sequence(self) -> int:
        """Number of this slot since the ring was formatted; goes on over restarts of the producer."""
        return self._words[_SEQUENCE]

    @property
    def marker(self) -> int:
        """The producer's note to the consumer, 0 for none."""
        return self._words[_MARKER]


class Ring:
    """What both sides share: the header and the prebuilt slots."""

    def __init__(self, segment: Segment, spec: RingSpec) -> None:
        self.spec = spec
        self._words = segment.words(0, _HEADER_BYTES // WORD)
        expected = [_MAGIC, spec.slots, spec.stride, spec.layout.digest]
        found = [self._words[word] for word in (_MAGIC_WORD, _SLOTS_WORD, _STRIDE_WORD, _DIGEST_WORD)]
        if found != expected:
            raise ValueError(f"ring {spec.name!r}: segment {segment.name!r} holds {found}, expected {expected}")
        self._slots = tuple(Slot(segment, spec, place) for place in range(spec.slots))

    @staticmethod
    def format(segment: Segment, spec: RingSpec) -> None:
        """Lay an empty, poisoned ring into `segment`, once, before anybody attaches. ValueError if it does not fit."""
        if segment.nbytes < spec.nbytes:
            raise ValueError(f"ring {spec.name!r} needs {spec.nbytes} bytes, segment has {segment.nbytes}")
        words = segment.words(0, _HEADER_BYTES // WORD)
        for word in range(len(words)):
            words[word] = 0
        for place in range(spec.slots):
            slot = Slot(segment, spec, place)
            for word in range(len(slot._words)):
                slot._words[word] = 0
            poison(slot.fields.values())
        words[_SLOTS_WORD], words[_STRIDE_WORD], words[_DIGEST_WORD] = spec.slots, spec.stride, spec.layout.digest
        fence()
        words[_MAGIC_WORD] = _MAGIC


class Producer(Ring):
    """The writing end. One at a time; a successor goes on where its predecessor's last commit left off."""

    def __init__(self, segment: Segment, spec: RingSpec, *, data_ready: EventFd, space_ready: EventFd) -> None:
        super().__init__(segment, spec)
        self.data_ready = data_ready
        self.space_ready = space_ready
        self._head = self._words[_HEAD]
        self._tail = self._words[TAIL]  # as last seen; the true one can only be larger
        fence()
        self._acquired: Slot | None = None
        self._total = self._slots[(self._head - 1) % spec.slots]._words[_PRODUCED] if self._head else 0
        self._words[_PRODUCER_ATTEMPT] += 1

    @property
    def cumulative_samples(self) -> int:
        """Samples committed since the ring was formatted, by this producer and those before it."""
        return self._total

    @property
    def last(self) -> Slot | None:
        """The slot committed last, also by a predecessor and also if it is released by now: to read, not to write."""
        return self._slots[(self._head - 1) % self.spec.slots] if self._head else None

    @property
    def unreleased(self) -> int:
        """How many committed slots the consumer has not given back yet."""
        self._tail = self._words[TAIL]
        fence()  # as in `acquire`
        return self._head - self._tail

    def acquire(self) -> Slot | None:
        """The next free slot to fill in place, or None when full. The same slot until `commit`. Never blocks."""
        if self._acquired is not None:
            return self._acquired
        if self._head - self._tail >= self.spec.slots:
            self._tail = self._words[TAIL]
            fence()  # after the load of tail: the consumer's last reads of the slot precede our writes to it
            if self._head - self._tail >= self.spec.slots:
                return None
        slot = self._slots[self._head % self.spec.slots]
        slot._words[_SEQUENCE] = self._head
        self._acquired = slot
        return slot

    def commit(self, samples: int, marker: int = 0) -> None:
        """Make the acquired slot visible with its number of samples, and wake the consumer."""
        slot = self._acquired
        if slot is None:
            raise RuntimeError(f"ring {self.spec.name!r}: commit without acquire")
        if samples < 0:
            raise ValueError(f"ring {self.spec.name!r}: {samples} samples in a slot")
        words = slot._words
        self._total += samples
        words[_SAMPLES] = samples
        words[_MARKER] = marker
        words[_PRODUCED] = self._total
        self._head += 1
        self._acquired = None
        fence()  # before the store of head: payload and slot words are there when the slot becomes visible
        self._words[_HEAD] = self._head
        self.data_ready.signal()


class Consumer(Ring):
    """The reading end. One at a time; a successor reads again what its predecessor had not released."""

    def __init__(self, segment: Segment, spec: RingSpec, *, data_ready: EventFd, space_ready: EventFd) -> None:
        super().__init__(segment, spec)
        self.data_ready = data_ready
        self.space_ready = space_ready
        self._tail = self._words[TAIL]
        self._head = self._words[_HEAD]  # as last seen; the true one can only be larger
        fence()
        last = self._slots[(self._tail - 1) % spec.slots]._words
        totals = (last[CONSUMED], last[STALE], last[OTHER]) if self._tail else (0, 0, 0)
        self._consumed, self._stale, self._other = totals
        self._words[_CONSUMER_ATTEMPT] += 1

    @property
    def available(self) -> int:
        """How many committed slots wait to be released."""
        self._look()
        return self._head - self._tail

    @property
    def released(self) -> int:
        """How many slots have been given back since the ring was formatted."""
        return self._tail

    @property
    def released_samples(self) -> int:
        """Samples given back since the ring was formatted, whatever became of them."""
        return self._consumed + self._stale + self._other

    def peek(self, index: int = 0) -> Slot | None:
        """The `index`-th oldest unreleased slot, or None if not committed yet. Releases nothing. Never blocks."""
        if index < 0:
            raise IndexError(f"ring {self.spec.name!r}: peek at {index}")
        if self._tail + index >= self._head:
            self._look()
            if self._tail + index >= self._head:
                return None
        return self._slots[(self._tail + index) % self.spec.slots]

    def release(self, *, consumed: int = 0, dropped_stale: int = 0, dropped_other: int = 0) -> None:
        """Give the oldest slot back and say what became of its samples; the three must add up to `Slot.samples`."""
        slot = self.peek()
        if slot is None:
            raise RuntimeError(f"ring {self.spec.name!r}: release without a committed slot")
        words = slot._words
        if (
            min(consumed, dropped_stale, dropped_other) < 0
            or consumed + dropped_stale + dropped_other != words[_SAMPLES]
        ):
            raise ValueError(
                f"ring {self.spec.name!r}: slot {words[_SEQUENCE]} has {words[_SAMPLES]} samples, released as "
                f"{consumed} consumed + {dropped_stale} stale + {dropped_other} other"
            )
        self._consumed += consumed
        self._stale += dropped_stale
        self._other += dropped_other
        words[CONSUMED], words[STALE], words[OTHER] = self._consumed, self._stale, self._other
        self._tail += 1
        fence()  # before the store of tail: our reads and the totals are done when the slot becomes free
        self._words[TAIL] = self._tail
        self.space_ready.signal()

    def _look(self) -> None:
        head = self._words[_HEAD]
        if head != self._head:
            fence()  # after the load of head: what the producer wrote before its fence is there for us
            self._head = head


@dataclass(frozen=True)
class Ledger:
    """Where the samples of a ring are, in totals since it was formatted. `committed` and `released` count slots."""

    produced: int
    consumed: int
    dropped_stale: int
    dropped_other: int
    committed: int
    released: int

    @property
    def in_flight(self) -> int:
        """Samples committed and not released."""
        return self.produced - self.consumed - self.dropped_stale - self.dropped_other


_LEDGER_TRIES = 1000  # a try fails only if the ring went all the way round within microseconds


def read_ledger(segment: Segment, spec: RingSpec) -> Ledger:
    """The totals, from any process, while both ends work. Tail side first, so that `in_flight` is never negative."""
    header = segment.words(0, _HEADER_BYTES // WORD)
    released, (consumed, stale, other) = _totals(segment, spec, header, TAIL, (CONSUMED, STALE, OTHER))
    committed, (produced,) = _totals(segment, spec, header, _HEAD, (_PRODUCED,))
    return Ledger(produced, consumed, stale, other, committed, released)


def _totals(
    segment: Segment, spec: RingSpec, header: memoryview[int], counter: int, words: tuple[int, ...]
) -> tuple[int, list[int]]:
    """`counter` and the totals in the slot it counted last.

    That slot's words are written again while `counter` is `slots - 1` further on; a smaller advance proves them whole.
    """
    for _ in range(_LEDGER_TRIES):
        count = header[counter]
        if count == 0:
            return 0, [0] * len(words)
        fence()
        start = _HEADER_BYTES + (count - 1) % spec.slots * spec.stride
        slot = segment.words(start, SLOT_HEADER_BYTES // WORD)
        totals = [slot[word] for word in words]
        fence()
        if header[counter] - count < spec.slots - 1:
            return count, totals
    raise TimeoutError(f"ring {spec.name!r}: no steady ledger in {_LEDGER_TRIES} tries")
