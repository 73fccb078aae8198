"""The mirrored ring's protocol as pure state: whoever forgets what and when, each slot arrives once, in order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.courier.idle import LONGEST_S, BackOff
from runtime.courier.protocol import ProtocolError, ReceiveWindow, SendWindow
from runtime.memory.mirrored import Disposition, Origin

ONE = Disposition(1, 0, 0)


def test_nothing_is_sent_before_the_welcome_and_then_only_what_has_a_place() -> None:
    window = SendWindow(5)
    assert not window.sendable(head=9, tail=5)
    window.welcome(received=7, limit=8, slots=4)
    assert window.sendable(head=9, tail=5) == range(7, 8)
    window.mark_sent(1)
    assert not window.sendable(head=9, tail=5)
    window.acknowledge(12, 5, [])
    assert not window.sendable(head=9, tail=5), "one place fewer than the receiver has is ahead of the oldest slot"
    assert window.sendable(head=12, tail=8) == range(8, 11)


def test_an_acknowledgement_that_is_heard_twice_counts_once() -> None:
    window = SendWindow(0)
    window.welcome(0, 8, 9)
    window.mark_sent(4)
    assert list(window.acknowledge(8, 0, [ONE, ONE])) == [ONE, ONE]
    assert list(window.acknowledge(8, 0, [ONE, ONE, ONE])) == [ONE]
    assert list(window.acknowledge(8, 1, [ONE])) == []
    assert window.released == 3


@pytest.mark.parametrize(("first", "count"), [(1, 1), (0, 5)])
def test_acknowledging_what_was_not_sent_is_an_error(first: int, count: int) -> None:
    window = SendWindow(0)
    window.welcome(0, 8, 9)
    window.mark_sent(4)
    with pytest.raises(ProtocolError):
        window.acknowledge(8, first, [ONE] * count)


@pytest.mark.parametrize("numbers", [(4, 8, 4), (6, 5, 4), (6, 8, 1)])
def test_an_impossible_welcome_is_an_error(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(ProtocolError):
        SendWindow(5).welcome(*numbers)


def test_a_receiver_drops_what_it_has_and_refuses_a_gap() -> None:
    window = ReceiveWindow(Origin(1, 0, 10), head=2, acknowledged=10)
    assert not window.accept(11)
    assert window.accept(12)
    with pytest.raises(ProtocolError):
        window.accept(14)


def test_a_ring_of_another_epoch_must_be_adopted() -> None:
    assert ReceiveWindow.joined(None, 7, 0, 0) is None
    assert ReceiveWindow.joined(Origin(6, 0, 0), 7, 0, 3) is None
    known = ReceiveWindow.joined(Origin(7, 2, 10), 7, 11, 5)
    assert known is not None
    assert known.received == 13
    with pytest.raises(ProtocolError):
        ReceiveWindow.joined(Origin(7, 2, 10), 7, 14, 5)


class Pair:
    """Two rings as counters, a wire of each direction that may lose its rest, and both windows."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.head = self.tail = 0  # of the sender's ring
        self.far: list[int] = []  # what the receiver's ring was given, in order
        self.far_tail = 0
        self.origin: Origin | None = None
        self.released: list[int] = []
        self.join()

    def join(self) -> None:
        self.wire: list[int] = []
        self.acks: list[tuple[int, int, int]] = []
        self.sender = SendWindow(self.tail)
        found = ReceiveWindow.joined(self.origin, 1, self.tail, len(self.far))
        if found is None:
            self.origin = Origin(1, len(self.far), self.tail)
            found = ReceiveWindow(self.origin, len(self.far), self.tail)
        self.receiver = found
        self.sender.welcome(self.receiver.received, self.receiver.limit(self.far_tail + self.slots + 1), self.slots + 1)

    def step(self, what: str) -> None:
        match what:
            case "commit" if self.head - self.tail < self.slots:
                self.head += 1
            case "send":
                pending = self.sender.sendable(self.head, self.tail)
                self.wire.extend(pending)
                self.sender.mark_sent(len(pending))
            case "arrive" if self.wire:
                sequence = self.wire.pop(0)
                if self.receiver.accept(sequence):
                    self.far.append(sequence)
            case "release" if self.far_tail < len(self.far):
                self.far_tail += 1
            case "acknowledge":
                pending = self.receiver.to_acknowledge(self.far_tail, 2)
                self.acks.append((self.receiver.limit(self.far_tail + self.slots + 1), pending.start, len(pending)))
                self.receiver.acknowledged += len(pending)
            case "hear" if self.acks:
                limit, first, count = self.acks.pop(0)
                new = self.sender.acknowledge(limit, first, [Disposition(first + at, 0, 0) for at in range(count)])
                self.released.extend(part.consumed for part in new)
                self.tail += len(new)
            case "break":
                self.join()


STEPS = ("commit", "send", "arrive", "release", "acknowledge", "hear", "break")


@settings(max_examples=300, deadline=None)
@given(slots=st.integers(2, 4), steps=st.lists(st.sampled_from(STEPS), max_size=120))
def test_whatever_breaks_when_each_slot_arrives_once_in_order_and_is_released_as_it_was_there(
    slots: int, steps: list[str]
) -> None:
    pair = Pair(slots)
    for step in steps:
        pair.step(step)
        assert pair.far == list(range(len(pair.far)))
        assert pair.released == list(range(pair.tail))
        assert pair.tail <= pair.far_tail <= len(pair.far) <= pair.head
        assert len(pair.far) - pair.far_tail <= pair.slots + 1
        assert pair.far_tail < pair.tail + pair.slots + 1, "the totals before the oldest slot are still there"
    for _ in range(4 * slots):
        for step in STEPS[1:-1]:
            pair.step(step)
    assert pair.tail == pair.head


def test_naps_grow_with_the_quiet_and_end_with_movement() -> None:
    back_off = BackOff(0.0)
    assert back_off.nap(moved=False, now=0.0001) == 0.0
    naps = [back_off.nap(moved=False, now=now) for now in (0.001, 0.004, 0.02, 5.0)]
    assert naps == sorted(naps)
    assert naps[-1] == LONGEST_S
    assert back_off.nap(moved=True, now=5.1) == 0.0
    assert back_off.nap(moved=False, now=5.10001) == 0.0
