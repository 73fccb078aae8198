"""Rings and boards between real processes at full speed, killed with SIGKILL wherever they happen to be."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable

import numpy as np
import pytest

from runtime.memory.board import Board, BoardReader, BoardSpec, BoardWriter
from runtime.memory.eventfd import EventFd
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import Consumer, Ledger, Producer, Ring, RingSpec, read_ledger
from runtime.memory.segment import Segment

Child = Callable[[Callable[[], None]], int]

DEADLINE_S = 60.0
RING = RingSpec("ring", Layout((Field("cells", "int64", (2048,)),)), 3)


def samples_of(sequence: int) -> int:
    return sequence * 7919 % 1000


def totals_up_to(count: int) -> int:
    return sum(samples_of(sequence) for sequence in range(count))


class SharedRing:
    """A ring in a memfd, and the endless work of its two ends."""

    def __init__(self) -> None:
        self.segment = Segment.create("ring", RING.nbytes)
        self.data_ready, self.space_ready = EventFd.create(), EventFd.create()
        Ring.format(self.segment, RING)

    def producer(self) -> Producer:
        return Producer(self.segment, RING, data_ready=self.data_ready, space_ready=self.space_ready)

    def consumer(self) -> Consumer:
        return Consumer(self.segment, RING, data_ready=self.data_ready, space_ready=self.space_ready)

    def produce_for_ever(self) -> None:
        ring = self.producer()
        while True:
            slot = ring.acquire()
            if slot is None:
                self.space_ready.wait(0.05)
                self.space_ready.drain()
                continue
            slot.fields["cells"].fill(slot.sequence)
            ring.commit(samples_of(slot.sequence), marker=slot.sequence % 5)

    def consume_for_ever(self) -> None:
        ring = self.consumer()
        while True:
            slot = ring.peek()
            if slot is None:
                self.data_ready.wait(0.05)
                self.data_ready.drain()
                continue
            assert_whole(slot.sequence, slot.samples, slot.fields["cells"])
            ring.release(consumed=slot.samples // 2, dropped_stale=slot.samples - slot.samples // 2)

    def close(self) -> None:
        self.segment.close()
        self.data_ready.close()
        self.space_ready.close()


@pytest.fixture
def shared_ring() -> SharedRing:
    return SharedRing()


def assert_whole(sequence: int, samples: int, cells: np.ndarray) -> None:
    assert samples == samples_of(sequence)
    assert cells[0] == sequence
    assert (cells == sequence).all()


def kill(pid: int) -> None:
    """SIGKILL a process that must still be alive: one that ended by itself found something wrong."""
    assert os.waitpid(pid, os.WNOHANG) == (0, 0), "the process ended by itself"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "nothing happened for too long"
        os.sched_yield()


def assert_exact(ledger: Ledger) -> None:
    """Totals that are those of exactly the slots that the ledger counts: not one half-accounted slot."""
    assert ledger.produced == totals_up_to(ledger.committed)
    assert ledger.consumed + ledger.dropped_stale == totals_up_to(ledger.released)
    assert ledger.consumed == sum(samples_of(sequence) // 2 for sequence in range(ledger.released))
    assert ledger.committed >= ledger.released
    assert ledger.in_flight == ledger.produced - ledger.consumed - ledger.dropped_stale >= 0


def test_slots_arrive_whole_and_in_order_though_the_producer_is_killed_again_and_again(
    shared_ring: SharedRing, child: Child
) -> None:
    ring = shared_ring.consumer()
    expected = 0
    for life in range(8):
        pid = child(shared_ring.produce_for_ever)
        goal = expected + 50 + 37 * life
        deadline = time.monotonic() + DEADLINE_S
        while expected < goal:
            slot = ring.peek()
            if slot is None:
                assert time.monotonic() < deadline
                shared_ring.data_ready.wait(0.05)
                shared_ring.data_ready.drain()
                continue
            assert slot.sequence == expected
            assert slot.marker == expected % 5
            assert_whole(slot.sequence, slot.samples, slot.fields["cells"])
            ring.release(consumed=slot.samples)
            expected += 1
        kill(pid)
    while (slot := ring.peek()) is not None:
        assert slot.sequence == expected
        assert_whole(slot.sequence, slot.samples, slot.fields["cells"])
        ring.release(consumed=slot.samples)
        expected += 1
    assert shared_ring.producer().cumulative_samples == totals_up_to(expected)
    assert read_ledger(shared_ring.segment, RING).consumed == totals_up_to(expected)


def test_a_producer_killed_while_it_fills_a_slot_shows_none_of_it(shared_ring: SharedRing, child: Child) -> None:
    half_written = EventFd.create()

    def die_in_mid_slot() -> None:
        slot = shared_ring.producer().acquire()
        assert slot is not None
        slot.fields["cells"][:1024] = -5
        half_written.signal()
        signal.pause()

    pid = child(die_in_mid_slot)
    assert half_written.wait(DEADLINE_S)
    kill(pid)
    consumer = shared_ring.consumer()
    assert consumer.peek() is None
    assert read_ledger(shared_ring.segment, RING).committed == 0
    successor = shared_ring.producer()
    slot = successor.acquire()
    assert slot is not None
    assert slot.sequence == 0
    half_written.close()


def test_the_ledger_is_exact_while_both_ends_work_and_die(shared_ring: SharedRing, child: Child) -> None:
    producer, consumer = child(shared_ring.produce_for_ever), child(shared_ring.consume_for_ever)
    for life in range(6):
        before = read_ledger(shared_ring.segment, RING)
        seen = 0

        def moved(goal: int = before.released + 40) -> bool:
            nonlocal seen
            seen += 1
            ledger = read_ledger(shared_ring.segment, RING)
            assert_exact(ledger)
            return ledger.released > goal

        until(moved)
        assert seen > 1
        if life % 2:
            kill(producer)
            producer = child(shared_ring.produce_for_ever)
        else:
            kill(consumer)
            consumer = child(shared_ring.consume_for_ever)
    kill(producer)
    kill(consumer)
    assert_exact(read_ledger(shared_ring.segment, RING))


PARAMS = Layout((Field("first", "int64", (16384,)), Field("second", "int64", (16384,)), Field("word", "int64", ())))


class SharedBoard:
    """A board in a memfd, its endless writer and a reader that checks every copy."""

    def __init__(self, slots: int) -> None:
        self.spec = BoardSpec("board", PARAMS, slots)
        self.segment = Segment.create("board", self.spec.nbytes)
        Board.format(self.segment, self.spec)

    def write_for_ever(self) -> None:
        board = BoardWriter(self.segment, self.spec)
        version = board.version
        while True:
            version += 1
            for view in board.begin().values():
                view.fill(version)
            board.publish(version)

    def read_and_check(self, goal: int) -> None:
        """Read until `goal` different versions were seen, each whole and none older than the one before."""
        board = BoardReader(self.segment, self.spec)
        into = {field.name: np.empty(field.shape, field.dtype) for field in PARAMS.fields}
        last, seen = -1, 0
        while seen < goal:
            version = board.read(into)
            if version is None:
                continue
            assert version >= last
            for view in into.values():
                assert view.min() == view.max() == version
            seen += version != last
            last = version


@pytest.mark.parametrize("slots", [3, 4])
def test_readers_of_a_faster_writer_never_see_a_torn_version(slots: int, child: Child) -> None:
    board = SharedBoard(slots)
    writer = child(board.write_for_ever)
    readers = [child(lambda: board.read_and_check(150)) for _ in range(2)]
    for reader in readers:
        _, status = os.waitpid(reader, 0)
        assert os.waitstatus_to_exitcode(status) == 0, "a reader saw a torn version or one older than before"
    kill(writer)


def test_a_board_stays_readable_and_goes_on_though_its_writer_is_killed_anywhere(child: Child) -> None:
    board = SharedBoard(2)
    reader = BoardReader(board.segment, board.spec)
    into = {field.name: np.empty(field.shape, field.dtype) for field in PARAMS.fields}
    last = -1
    for _ in range(12):
        writer = child(board.write_for_ever)
        until(lambda goal=last + 5: reader.version > goal)  # type: ignore[misc]
        kill(writer)
        version = reader.read(into)
        assert version is not None
        assert version > last
        for view in into.values():
            assert view.min() == view.max() == version
        assert BoardWriter(board.segment, board.spec).version == version
        last = version


def test_a_waiting_consumer_costs_next_to_nothing(shared_ring: SharedRing, child: Child) -> None:
    def wait_a_second() -> None:
        ring = shared_ring.consumer()
        began, cpu, looks = time.monotonic(), time.process_time(), 0
        turns = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        while time.monotonic() - began < 1.0:
            assert ring.peek() is None
            shared_ring.data_ready.wait(0.05)
            shared_ring.data_ready.drain()
            looks += 1
        assert looks <= 21  # it waited through each
        assert resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - turns <= 2 * looks
        assert time.process_time() - cpu < 0.5  # asleep

    _, status = os.waitpid(child(wait_a_second), 0)
    assert os.waitstatus_to_exitcode(status) == 0
