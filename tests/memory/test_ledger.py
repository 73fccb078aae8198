"""The ledger, read while slots pass by."""

from __future__ import annotations

import pytest

from runtime.memory import ring as ring_module
from runtime.memory.eventfd import EventFd
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import Consumer, Producer, Ring, RingSpec, read_ledger
from runtime.memory.segment import Segment

SPEC = RingSpec("ring", Layout((Field("cell", "int64", (4,)),)), 4)


class DisturbedRing:
    """A ring on which slots pass at one chosen fence of the reader, the last of them only half-way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.segment, self._events = Segment.anonymous(SPEC.nbytes), (EventFd.create(), EventFd.create())
        Ring.format(self.segment, SPEC)
        self._producer = Producer(self.segment, SPEC, data_ready=self._events[0], space_ready=self._events[1])
        self._consumer = Consumer(self.segment, SPEC, data_ready=self._events[0], space_ready=self._events[1])
        self._fences_left = 0
        self._slots = 0
        self._half_way = False
        monkeypatch.setattr(ring_module, "fence", self._fence)

    def commit(self) -> None:
        assert self._producer.acquire() is not None
        self._producer.commit(10)

    def release(self) -> None:
        self._consumer.release(consumed=7, dropped_stale=3)

    def disturb(self, *, at_fence: int, slots: int) -> None:
        self._fences_left, self._slots = at_fence, slots

    def close(self) -> None:
        for event in self._events:
            event.close()

    def _fence(self) -> None:
        if self._half_way:
            raise InterruptedError  # totals are written, the counter has not moved
        self._fences_left -= 1
        if self._fences_left == 0:
            for _ in range(self._slots):
                self.release()
                self.commit()
            self._half_way = True
            for action in (self.release, self.commit):
                with pytest.raises(InterruptedError):
                    action()
            self._half_way = False


@pytest.mark.parametrize("at_fence", [1, 2, 3, 4])
@pytest.mark.parametrize("slots", range(6))
def test_a_ledger_is_that_of_one_instant_of_each_end_whatever_passes_meanwhile(
    monkeypatch: pytest.MonkeyPatch, at_fence: int, slots: int
) -> None:
    ring = DisturbedRing(monkeypatch)
    for _ in range(3):
        ring.commit()
    ring.release()
    ring.disturb(at_fence=at_fence, slots=slots)
    ledger = read_ledger(ring.segment, SPEC)
    assert ledger.produced == 10 * ledger.committed
    assert (ledger.consumed, ledger.dropped_stale) == (7 * ledger.released, 3 * ledger.released)
    assert ledger.in_flight >= 20
    ring.close()


def test_a_ledger_that_never_holds_still_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = DisturbedRing(monkeypatch)
    ring.commit()
    header = ring.segment.words(0, 64)

    def go_round() -> None:
        header[16] += SPEC.slots

    monkeypatch.setattr(ring_module, "fence", go_round)
    with pytest.raises(TimeoutError, match="no steady ledger"):
        read_ledger(ring.segment, SPEC)
    ring.close()
