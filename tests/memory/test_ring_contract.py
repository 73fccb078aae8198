"""What a ring promises, whatever memory it lies in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.memory.ring import Ring, RingSpec
from runtime.memory.segment import Segment

if TYPE_CHECKING:
    from tests.memory.conftest import Form, RingUnderTest


def produce(ring: RingUnderTest, value: int, samples: int = 10, marker: int = 0) -> None:
    assert ring.producer.fill(value)
    ring.producer.commit(samples, marker)


def test_a_new_ring_is_empty(form: Form) -> None:
    ring = form.ring(3)
    assert ring.consumer.available() == 0
    assert ring.consumer.peek() is None
    assert ring.ledger().in_flight == ring.ledger().produced == 0


def test_a_slot_is_invisible_until_committed(form: Form) -> None:
    ring = form.ring(3)
    assert ring.producer.fill(7)
    assert ring.consumer.available() == 0
    ring.producer.commit(4, 99)
    assert ring.consumer.peek() == [0, 4, 99, 7]


def test_marker_is_none_unless_given(form: Form) -> None:
    ring = form.ring(2)
    for lap in range(3):
        produce(ring, lap, marker=5)
        ring.consumer.release(10)
        produce(ring, lap)
        assert ring.consumer.peek() == [2 * lap + 1, 10, 0, lap]
        ring.consumer.release(10)


def test_a_full_ring_refuses_until_the_oldest_is_released(form: Form) -> None:
    ring = form.ring(3)
    for value in range(3):
        produce(ring, value)
    assert not ring.producer.fill(3)
    ring.consumer.release(10)
    assert ring.producer.fill(3)
    ring.producer.commit(10)
    assert not ring.producer.fill(4)
    assert [ring.consumer.peek(index) for index in range(4)] == [[1, 10, 0, 1], [2, 10, 0, 2], [3, 10, 0, 3], None]


def test_acquiring_twice_gives_the_same_slot(form: Form) -> None:
    ring = form.ring(2)
    assert ring.producer.fill(1)
    assert ring.producer.fill(2)
    ring.producer.commit(10)
    assert ring.consumer.peek() == [0, 10, 0, 2]
    assert ring.consumer.available() == 1


def test_committing_what_was_not_acquired_is_an_error(form: Form) -> None:
    ring = form.ring(2)
    with pytest.raises(RuntimeError, match="commit without acquire"):
        ring.producer.commit(1)
    produce(ring, 1)
    with pytest.raises(RuntimeError, match="commit without acquire"):
        ring.producer.commit(1)


def test_releasing_more_than_was_committed_is_an_error(form: Form) -> None:
    ring = form.ring(2)
    with pytest.raises(RuntimeError, match="release without a committed slot"):
        ring.consumer.release(0)


@pytest.mark.parametrize("parts", [(9, 0, 0), (5, 3, 3), (11, -1, 0), (0, 0, 0)])
def test_a_release_must_account_for_every_sample(form: Form, parts: tuple[int, int, int]) -> None:
    ring = form.ring(2)
    produce(ring, 1, samples=10)
    with pytest.raises(ValueError, match="slot 0 has 10 samples"):
        ring.consumer.release(*parts)
    assert ring.consumer.available() == 1
    ring.consumer.release(5, 3, 2)
    ledger = ring.ledger()
    assert (ledger.consumed, ledger.dropped_stale, ledger.dropped_other, ledger.in_flight) == (5, 3, 2, 0)


def test_commit_wakes_the_consumer_and_release_wakes_the_producer(form: Form) -> None:
    ring = form.ring(2)
    ring.data_ready.drain()
    ring.space_ready.drain()
    assert ring.producer.fill(1)
    assert not ring.data_ready.wait(0)
    ring.producer.commit(1)
    assert ring.data_ready.wait(0)
    assert not ring.space_ready.wait(0)
    ring.consumer.release(1)
    assert ring.space_ready.wait(0)


def test_a_producer_lost_in_mid_slot_leaves_nothing_visible(form: Form) -> None:
    ring = form.ring(2)
    produce(ring, 1, samples=3)
    assert ring.producer.fill(666)
    ring.replace_producer()
    assert ring.consumer.available() == 1
    assert ring.ledger().produced == 3
    assert ring.producer.total() == 3
    produce(ring, 2, samples=4)
    assert [ring.consumer.peek(0), ring.consumer.peek(1)] == [[0, 3, 0, 1], [1, 4, 0, 2]]
    assert ring.producer.total() == 7


def test_a_lost_consumers_successor_reads_again_what_was_not_released(form: Form) -> None:
    ring = form.ring(3)
    for value in range(3):
        produce(ring, value)
    ring.consumer.release(6, 4, 0)
    assert ring.consumer.peek() == [1, 10, 0, 1]
    ring.replace_consumer()
    assert ring.consumer.available() == 2
    assert ring.consumer.peek() == [1, 10, 0, 1]
    ring.consumer.release(10)
    assert (ring.ledger().consumed, ring.ledger().dropped_stale) == (16, 4)


Step = tuple[str, int]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(0, 1000)),
        st.tuples(st.just("produce"), st.integers(0, 1000)),
        st.tuples(st.just("release"), st.integers(0, 3)),
        st.tuples(st.just("release"), st.integers(0, 3)),
        st.tuples(st.just("lose producer in mid-slot"), st.just(0)),
        st.tuples(st.just("lose producer between slots"), st.just(0)),
        st.tuples(st.just("lose consumer"), st.just(0)),
    ),
    max_size=40,
)


class Model:
    """The ring as a list: what a slow and obvious one would do."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.waiting: list[list[int]] = []  # [sequence, samples, marker, value]
        self.committed = 0
        self.parts = [0, 0, 0]

    def produce(self, samples: int) -> list[int] | None:
        if len(self.waiting) == self.slots:
            return None
        entry = [self.committed, samples, samples % 3, self.committed * 7 + samples]
        self.waiting.append(entry)
        self.committed += 1
        return entry

    def release(self, kind: int) -> tuple[int, int, int] | None:
        if not self.waiting:
            return None
        samples = self.waiting.pop(0)[1]
        third = samples // 3
        parts = {0: (samples, 0, 0), 1: (0, samples, 0), 2: (0, 0, samples), 3: (third, third, samples - 2 * third)}[
            kind
        ]
        self.parts = [total + part for total, part in zip(self.parts, parts, strict=True)]
        return parts


def take(ring: RingUnderTest, model: Model, step: Step) -> None:
    match step:
        case ("produce", samples):
            entry = model.produce(samples)
            assert ring.producer.fill(entry[3] if entry else 0) is (entry is not None)
            if entry:
                ring.producer.commit(entry[1], entry[2])
        case ("release", kind):
            parts = model.release(kind)
            if parts is None:
                assert ring.consumer.peek() is None
            else:
                ring.consumer.release(*parts)
        case ("lose producer in mid-slot", _):
            ring.producer.fill(-5)
            ring.replace_producer()
        case ("lose producer between slots", _):
            ring.replace_producer()
        case ("lose consumer", _):
            ring.replace_consumer()


@settings(max_examples=25, deadline=None)
@given(slots=st.integers(2, 5), steps=steps)
@example(slots=2, steps=[("produce", 5), ("produce", 0), ("release", 0), ("produce", 0), ("release", 3)])
def test_a_ring_behaves_like_a_bounded_list_and_its_ledger_balances_at_every_step(
    form: Form, slots: int, steps: list[Step]
) -> None:
    ring, model = form.ring(slots), Model(slots)
    produced = 0
    for step in steps:
        committed = model.committed
        take(ring, model, step)
        if model.committed > committed:
            produced += step[1]
        assert ring.consumer.available() == len(model.waiting)
        assert [ring.consumer.peek(index) for index in range(slots + 1)] == [
            *model.waiting,
            *[None] * (slots + 1 - len(model.waiting)),
        ]
        ledger = ring.ledger()
        assert [ledger.consumed, ledger.dropped_stale, ledger.dropped_other] == model.parts
        assert ledger.produced == produced == ring.producer.total()
        assert ledger.in_flight == sum(entry[1] for entry in model.waiting)
        assert (ledger.committed, ledger.released) == (model.committed, model.committed - len(model.waiting))
    ring.segment.close()


def test_slots_are_poisoned_until_written(form: Form) -> None:
    ring = form.ring(2)
    start = ring.spec.nbytes - ring.spec.stride + 256
    fields = ring.spec.layout.views(ring.segment.memory, start)
    assert np.isnan(fields["real"]).all()
    assert (fields["number"] == -1).all()
    assert fields["flag"].all()


def test_a_segment_of_another_ring_is_refused(form: Form) -> None:
    ring = form.ring(2)
    other = RingSpec("other", ring.spec.layout, 3)
    with pytest.raises(ValueError, match="other"):
        Ring(ring.segment, other)
    with pytest.raises(ValueError, match="needs"):
        Ring.format(Segment.anonymous(4096), other)


def test_a_ring_of_one_slot_is_refused(form: Form) -> None:
    with pytest.raises(ValueError, match="at least 2"):
        form.ring(1)
