"""What a copier between machines needs of a ring: raw bytes, free slots, dispositions, where slots come from."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.memory.eventfd import EventFd
from runtime.memory.layout import Field, Layout
from runtime.memory.mirrored import Disposition, MirrorConsumer, MirrorProducer, Origin
from runtime.memory.ring import Consumer, Producer, Ring, RingSpec
from runtime.memory.segment import Segment

SPEC = RingSpec("ring", Layout((Field("number", "int64", (5,)), Field("flag", "bool", (3,)))), 3)


def fresh() -> tuple[Segment, dict[str, EventFd]]:
    segment = Segment.anonymous(SPEC.nbytes)
    Ring.format(segment, SPEC)
    return segment, {"data_ready": EventFd.create(), "space_ready": EventFd.create()}


def test_raw_bytes_of_one_ring_make_whole_slots_of_another() -> None:
    (near, near_events), (far, far_events) = fresh(), fresh()
    producer, sender = Producer(near, SPEC, **near_events), MirrorConsumer(near, SPEC, **near_events)
    receiver, consumer = MirrorProducer(far, SPEC, **far_events), Consumer(far, SPEC, **far_events)
    for number in range(3):
        slot = producer.acquire()
        assert slot is not None
        slot.fields["number"].fill(number)
        slot.fields["flag"].fill(number == 1)
        producer.commit(number)
    for number in (2, 0, 1):  # in any order, while none is committed
        receiver.payload(number)[:] = sender.payload(number)
    assert consumer.peek() is None
    for number in range(3):
        assert receiver.acquire() is not None
        receiver.commit(number)
        slot = consumer.peek(number)
        assert slot is not None
        assert (slot.fields["number"] == number).all()
        assert (slot.fields["flag"] == (number == 1)).all()
    assert np.frombuffer(sender.slot_head(2), np.int64).tolist() == [2, 2, 0]
    assert len(sender.stretch(1, 5)) == 2 * SPEC.stride, "a stretch ends with the ring"


def test_only_free_slots_may_be_filled() -> None:
    segment, events = fresh()
    receiver, consumer = MirrorProducer(segment, SPEC, **events), Consumer(segment, SPEC, **events)
    receiver.acquire()
    receiver.commit(1)
    for sequence in (0, 3):
        with pytest.raises(ValueError, match="not free"):
            receiver.payload(sequence)
    consumer.release(consumed=1)
    assert receiver.tail == 1
    receiver.payload(3)


def test_dispositions_are_told_slot_by_slot_also_to_a_successor() -> None:
    segment, events = fresh()
    receiver, consumer = MirrorProducer(segment, SPEC, **events), Consumer(segment, SPEC, **events)
    parts = [Disposition(3, 1, 0), Disposition(0, 0, 7), Disposition(5, 0, 0), Disposition(1, 1, 1)]
    for number, part in enumerate(parts):
        receiver.acquire()
        receiver.commit(part.consumed + part.dropped_stale + part.dropped_other)
        consumer.release(consumed=part.consumed, dropped_stale=part.dropped_stale, dropped_other=part.dropped_other)
        assert receiver.disposition(number) == part
    successor = MirrorProducer(segment, SPEC, **events)
    assert [successor.disposition(number) for number in (2, 3)] == parts[2:]


def test_where_slots_come_from_is_remembered_and_may_change() -> None:
    segment, events = fresh()
    receiver = MirrorProducer(segment, SPEC, **events)
    assert receiver.origin is None
    assert receiver.adopt(7, 40) == Origin(7, 0, 40)
    receiver.acquire()
    receiver.commit(1)
    for epoch in (8, 9, 10):
        assert receiver.adopt(epoch, epoch * 2) == Origin(epoch, 1, epoch * 2)
        assert MirrorProducer(segment, SPEC, **events).origin == Origin(epoch, 1, epoch * 2)
    origin = Origin(1, 3, 10)
    assert (origin.upstream(5), origin.local(12)) == (12, 5)


def test_a_ring_keeps_its_epoch_and_no_two_share_one() -> None:
    segment, events = fresh()
    epoch = MirrorConsumer(segment, SPEC, **events).epoch
    assert epoch > 0
    assert MirrorConsumer(segment, SPEC, **events).epoch == epoch
    other, other_events = fresh()
    assert MirrorConsumer(other, SPEC, **other_events).epoch != epoch
