"""Every store in order: where the fences stand, and what is left when a process dies between any two of them.

The words of a real producer, consumer or writer are replaced by ones that note each load and store, and that can end
the "process" right after the n-th store. No machine shows a missing fence on demand (x86-64 forgives most); the order
of notes does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from runtime.memory import board as board_module
from runtime.memory import ring as ring_module
from runtime.memory.board import Board, BoardReader, BoardSpec, BoardWriter
from runtime.memory.eventfd import EventFd
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import Consumer, Producer, Ring, RingSpec, read_ledger
from runtime.memory.segment import Segment

LAYOUT = Layout((Field("cell", "int64", (4,)),))
RING = RingSpec("ring", LAYOUT, 2)
BOARD = BoardSpec("board", LAYOUT, 2)


class KilledError(Exception):
    """The process ends here."""


class Notes:
    """What happened, in order, and after which store the process ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[str] = []
        self.stores_left: int | None = None
        for module in (ring_module, board_module):
            monkeypatch.setattr(module, "fence", lambda: self.lines.append("fence"))

    def start(self, stores_left: int | None = None) -> None:
        self.lines.clear()
        self.stores_left = stores_left

    def stored(self, name: str) -> None:
        self.lines.append(f"store {name}")
        if self.stores_left is not None:
            self.stores_left -= 1
            if self.stores_left == 0:
                raise KilledError


class NotedWords:
    """Words that note every access."""

    def __init__(self, words: Any, where: str, notes: Notes) -> None:
        self._words, self._where, self._notes = words, where, notes

    def __getitem__(self, index: int) -> int:
        self._notes.lines.append(f"load {self._where}{index}")
        return cast("int", self._words[index])

    def __setitem__(self, index: int, value: int) -> None:
        self._words[index] = value
        self._notes.stored(f"{self._where}{index}")


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    return Notes(monkeypatch)


class NotedSegment(Segment):
    """A segment whose words note their accesses: `h16` is head or published, `h32` tail, `s…` a slot's word."""

    notes: Notes | None = None

    def words(self, offset: int, count: int) -> memoryview[int]:
        words = super().words(offset, count)
        if self.notes is None:
            return words
        return cast("memoryview[int]", NotedWords(words, "s" if offset else "h", self.notes))


class NotedRing:
    """A ring whose ends note their accesses."""

    def __init__(self, notes: Notes) -> None:
        self.segment = NotedSegment.anonymous(RING.nbytes)
        Ring.format(self.segment, RING)
        cast("NotedSegment", self.segment).notes = notes
        self._events = EventFd.create(), EventFd.create()

    def producer(self) -> Producer:
        return Producer(self.segment, RING, data_ready=self._events[0], space_ready=self._events[1])

    def consumer(self) -> Consumer:
        return Consumer(self.segment, RING, data_ready=self._events[0], space_ready=self._events[1])

    def close(self) -> None:
        for event in self._events:
            event.close()


def noted_board(notes: Notes) -> Segment:
    segment = NotedSegment.anonymous(BOARD.nbytes)
    Board.format(segment, BOARD)
    cast("NotedSegment", segment).notes = notes
    return segment


def put(producer: Producer, value: int) -> None:
    slot = producer.acquire()
    assert slot is not None
    slot.fields["cell"].fill(value)
    producer.commit(value, marker=value)


def test_a_fence_stands_before_head_moves_and_nothing_is_stored_after(notes: Notes) -> None:
    ring = NotedRing(notes)
    producer = ring.producer()
    producer.acquire()
    notes.start()
    producer.commit(5)
    assert notes.lines[-2:] == ["fence", "store h16"]
    assert all(line.startswith("store s") for line in notes.lines[:-2])
    ring.close()


def test_a_fence_stands_between_the_load_of_head_and_the_slot(notes: Notes) -> None:
    ring = NotedRing(notes)
    producer, consumer = ring.producer(), ring.consumer()
    put(producer, 5)
    notes.start()
    assert consumer.peek() is not None
    assert notes.lines == ["load h16", "fence"]
    ring.close()


def test_a_fence_stands_before_tail_moves_and_nothing_is_stored_after(notes: Notes) -> None:
    ring = NotedRing(notes)
    producer, consumer = ring.producer(), ring.consumer()
    put(producer, 5)
    consumer.peek()
    notes.start()
    consumer.release(consumed=5)
    assert notes.lines[-2:] == ["fence", "store h32"]
    assert not any(" h" in line for line in notes.lines[:-2])
    ring.close()


def test_a_fence_stands_between_the_load_of_tail_and_the_reuse_of_a_slot(notes: Notes) -> None:
    ring = NotedRing(notes)
    producer, consumer = ring.producer(), ring.consumer()
    put(producer, 1)
    put(producer, 2)
    consumer.release(consumed=1)
    notes.start()
    assert producer.acquire() is not None
    assert notes.lines == ["load h32", "fence", "store s0"]
    ring.close()


def test_a_fence_stands_between_attaching_and_the_first_access_to_a_slot(notes: Notes) -> None:
    ring = NotedRing(notes)
    put(ring.producer(), 5)
    ring.consumer().release(consumed=5)
    for attach in (ring.producer, ring.consumer):
        notes.start()
        attach()
        counters = [line for line in notes.lines if line in ("load h16", "load h32", "fence") or line[5] == "s"]
        assert set(counters[:2]) == {"load h16", "load h32"}
        assert counters[2] == "fence"
        assert len(counters) > 3
    ring.close()


def test_a_fence_follows_the_look_at_how_much_is_unreleased(notes: Notes) -> None:
    ring = NotedRing(notes)
    producer = ring.producer()
    put(producer, 5)
    notes.start()
    assert producer.unreleased == 1
    assert notes.lines == ["load h32", "fence"]
    ring.close()


def test_fences_keep_the_ledgers_totals_between_two_looks_at_the_counter(notes: Notes) -> None:
    ring = NotedRing(notes)
    put(ring.producer(), 5)
    ring.consumer().release(consumed=5)
    notes.start()
    read_ledger(ring.segment, RING)
    tail = ["load h32", "fence", "load s16", "load s17", "load s18", "fence", "load h32"]
    assert notes.lines == [*tail, "load h16", "fence", "load s3", "fence", "load h16"]
    ring.close()


def test_fences_of_a_board_keep_the_stamp_around_the_payload(notes: Notes) -> None:
    segment = noted_board(notes)
    writer, reader = BoardWriter(segment, BOARD), BoardReader(segment, BOARD)
    notes.start()
    writer.begin()
    assert notes.lines == ["store s0", "fence"]
    notes.start()
    writer.publish(3)
    assert notes.lines == ["store s1", "fence", "store s0", "fence", "store h16"]
    notes.start()
    assert reader.read({}) == 3
    assert notes.lines == ["load h16", "load h16", "fence", "load s0", "fence", "load s1", "fence", "load s0"]


def survivors(action: Callable[[], object], notes: Notes, stores: int) -> bool:
    """Do `action` but die after that many stores; False if it had fewer."""
    notes.start(stores)
    try:
        action()
    except KilledError:
        return True
    finally:
        notes.start()
    return False


def test_a_producer_killed_after_any_store_of_a_commit_has_committed_all_of_it_or_nothing(notes: Notes) -> None:
    seen = set()
    for stores in range(1, 20):
        ring = NotedRing(notes)
        producer = ring.producer()
        put(producer, 1)
        died = survivors(lambda end=producer: put(end, 20), notes, stores)  # type: ignore[misc]
        ledger, consumer = read_ledger(ring.segment, RING), ring.consumer()
        whole = consumer.available == 2
        seen.add(whole)
        assert (ledger.committed, ledger.produced) == ((2, 21) if whole else (1, 1))
        successor = ring.producer()
        assert successor.cumulative_samples == ledger.produced
        consumer.release(consumed=1)
        put(successor, 20)
        last = consumer.peek(consumer.available - 1)
        assert last is not None
        assert (last.sequence, last.samples, last.marker) == (ledger.committed, 20, 20)
        ring.close()
        if not died:
            break
    assert seen == {True, False}


def test_a_consumer_killed_after_any_store_of_a_release_has_released_all_of_it_or_nothing(notes: Notes) -> None:
    seen = set()
    for stores in range(1, 20):
        ring = NotedRing(notes)
        producer, consumer = ring.producer(), ring.consumer()
        put(producer, 1)
        consumer.release(consumed=1)
        put(producer, 20)
        died = survivors(
            lambda end=consumer: end.release(consumed=9, dropped_stale=8, dropped_other=3),  # type: ignore[misc]
            notes,
            stores,
        )
        ledger, successor = read_ledger(ring.segment, RING), ring.consumer()
        whole = successor.available == 0
        seen.add(whole)
        parts = (ledger.released, ledger.consumed, ledger.dropped_stale, ledger.dropped_other)
        assert parts == ((2, 10, 8, 3) if whole else (1, 1, 0, 0))
        assert ledger.in_flight == (0 if whole else 20)
        if not whole:
            successor.release(dropped_other=20)
            assert read_ledger(ring.segment, RING).dropped_other == 20
        ring.close()
        if not died:
            break
    assert seen == {True, False}


def test_a_writer_killed_after_any_store_of_a_publication_has_published_all_of_it_or_nothing(notes: Notes) -> None:
    seen = set()
    for stores in range(1, 20):
        segment = noted_board(notes)
        writer = BoardWriter(segment, BOARD)
        for version in range(2):
            writer.begin()["cell"].fill(version)
            writer.publish(version)

        def publish(writer: BoardWriter = writer) -> None:
            writer.begin()["cell"].fill(2)
            writer.publish(2)

        died = survivors(publish, notes, stores)
        reader, into = BoardReader(segment, BOARD), {"cell": np.zeros(4, np.int64)}
        version = reader.read(into) or 0
        assert version in (1, 2)
        assert (into["cell"] == version).all()
        seen.add(version)
        successor = BoardWriter(segment, BOARD)
        assert successor.version == version
        successor.begin()["cell"].fill(9)
        assert reader.version == version
        successor.publish(9)
        assert reader.read(into) == 9
        assert (into["cell"] == 9).all()
        if not died:
            break
    assert seen == {1, 2}
