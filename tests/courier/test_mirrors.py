"""Mirrors over a wire that breaks after any number of messages, again and again: the ledger stays exact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.courier.ring_mirror import DIRECT_BYTES, Packing, packing_of
from runtime.memory.board import BoardReader, BoardWriter
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import Consumer, Producer, RingSpec
from support.mirrored_form import MirroredForm

LAYOUT = Layout((Field("number", "int64", (4,)),))
ENDS: dict[str, Any] = {
    "producer": lambda segment, spec, events: Producer(segment, spec, data_ready=events[0], space_ready=events[1]),
    "consumer": lambda segment, spec, events: Consumer(segment, spec, data_ready=events[0], space_ready=events[1]),
    "writer": lambda segment, spec, events: BoardWriter(segment, spec, readers=events),
    "reader": lambda segment, spec, _events: BoardReader(segment, spec),
}


@pytest.fixture(params=Packing, scope="module")
def form(request: pytest.FixtureRequest) -> Iterator[MirroredForm]:
    made = MirroredForm(LAYOUT, ENDS, request.param)
    yield made
    made.close()


@settings(max_examples=40, deadline=None)
@given(breaks=st.lists(st.integers(1, 25), max_size=12), slots=st.integers(2, 5))
def test_a_wire_that_breaks_anywhere_loses_and_doubles_nothing(
    form: MirroredForm, breaks: list[int], slots: int
) -> None:
    ring = form.ring(slots)
    producer, consumer = ring.producer._end, ring.consumer._end
    made = seen = 0
    for cut_after in [*breaks, None, None]:
        ring.links.join(cut_after)
        for _ in range(3):
            while (slot := producer.acquire()) is not None:
                slot.fields["number"].fill(made)
                producer.commit(made % 4, made % 3)
                made += 1
            ring.links.settle()
            while (slot := consumer.peek()) is not None:
                assert (slot.fields["number"] == seen).all()
                assert (slot.samples, slot.marker) == (seen % 4, seen % 3)
                consumer.release(dropped_stale=slot.samples)
                seen += 1
    ring.links.settle()
    assert seen == made
    ledger = ring.ledger()
    assert ledger == ring.far_ledger()
    assert (ledger.released, ledger.in_flight) == (made, 0)


def test_small_slots_travel_together(form: MirroredForm) -> None:
    ring = form.ring(40)
    ring.links.settle()
    sent_before = ring.links.links[0].traffic.messages_sent
    producer = ring.producer._end
    for _ in range(39):
        producer.acquire().fields["number"].fill(1)
        producer.commit(1)
    ring.links.settle()
    messages = ring.links.links[0].traffic.messages_sent - sent_before
    assert messages == (2 * 39 if form.packing is Packing.DIRECT else 1)


def test_a_version_is_sent_once_and_those_between_are_skipped(form: MirroredForm) -> None:
    board = form.board(3)
    writer = board.writer._end
    for version in range(20):
        writer.begin()["number"].fill(version)
        writer.publish(version)
    board.links.settle()
    into = {"number": np.zeros(4, np.int64)}
    assert board.reader.read(into) == 19
    assert (into["number"] == 19).all()
    assert board.links.links[0].traffic.boards_sent == 1
    for _ in range(5):
        board.links.settle()
    assert board.links.links[1].traffic.boards_received == 1


def test_large_slots_go_straight_and_all_are_compressed_over_a_wide_area_link() -> None:
    large = RingSpec("large", Layout((Field("x", "uint8", (DIRECT_BYTES,)),)), 2)
    small = RingSpec("small", LAYOUT, 2)
    assert [packing_of(spec, wan=False) for spec in (large, small)] == [Packing.DIRECT, Packing.AGGREGATED]
    assert {packing_of(spec, wan=True) for spec in (large, small)} == {Packing.COMPRESSED}
