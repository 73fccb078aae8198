"""Real couriers over real MPI: what is mirrored arrives in order, once, also when a courier is killed in mid-flow."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from runtime.courier.codec import BoardCodec
from runtime.courier.orders import Drop, Remove
from runtime.memory.board import BoardSpec
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import RingSpec
from support.couriers import NodeBoard, NodeRing, RunningCourier, join, until

SIZES = {"direct": 192 * 1024, "aggregated": 3000}
SLOTS = 6


def layout_of(nbytes: int) -> Layout:
    return Layout((Field("stamp", "int64", (2,)), Field("rest", "uint8", (nbytes,))))


class Flow:
    """A ring on two nodes, a producer that stamps slots and a consumer that checks every stamp."""

    def __init__(self, nbytes: int, *, wan: bool = False) -> None:
        layout = layout_of(nbytes)
        self.near, self.far = NodeRing(RingSpec("near", layout, SLOTS)), NodeRing(RingSpec("far", layout, SLOTS + 1))
        self.wan = wan
        self._producer, self._consumer = self.near.producer(), self.far.consumer()
        self.made = self.seen = 0

    def mirror(self, sending: RunningCourier | None, receiving: RunningCourier | None, number: int = 1) -> None:
        if sending is not None:
            self.near.mirror(sending, "b", number, "send", wan=self.wan)
        if receiving is not None:
            self.far.mirror(receiving, "a", number, "receive", wan=self.wan)

    def step(self, most: int) -> None:
        """Produce what there is room for up to `most` slots in all; check and release what has come."""
        while self.made < most and (slot := self._producer.acquire()) is not None:
            slot.fields["stamp"].fill(self.made)
            slot.fields["rest"].fill(self.made % 251)
            self._producer.commit(10 + self.made % 3, marker=self.made % 5)
            self.made += 1
        while (slot := self._consumer.peek()) is not None:
            number = self.seen
            assert slot.fields["stamp"].tolist() == [number, number]
            assert (slot.fields["rest"] == number % 251).all()
            assert (slot.samples, slot.marker) == (10 + number % 3, number % 5)
            self._consumer.release(consumed=slot.samples - number % 3, dropped_stale=number % 3)
            self.seen += 1

    def pump(self, slots: int) -> None:
        """Until `slots` more have been seen."""
        goal = self.seen + slots

        def there() -> bool:
            self.step(goal)
            return self.seen >= goal

        until(there, f"{slots} slots through, {self.made} made, {self.seen} seen")

    def balanced(self) -> bool:
        """Both ledgers say the same, and that is what was produced."""
        ledger = self.near.ledger()
        return ledger == self.far.ledger() and ledger.released == self.seen == self.made and ledger.in_flight == 0

    def close(self) -> None:
        self.near.close()
        self.far.close()


@pytest.fixture(params=SIZES)
def flow(request: pytest.FixtureRequest) -> Iterator[Flow]:
    made = Flow(SIZES[request.param])
    yield made
    made.close()


Start = Callable[..., RunningCourier]


def test_slots_arrive_in_order_and_the_ledger_comes_back(courier: Start, flow: Flow) -> None:
    a, b = courier("a"), courier("b")
    flow.mirror(a, b)
    join(b, a)
    flow.pump(300)
    until(flow.balanced, "ledger")
    assert flow.near.ledger().dropped_stale == sum(number % 3 for number in range(300))
    (link,) = a.view().links
    assert (link.up, link.slots_sent, link.joined) == (True, 300, 1)


def test_a_ring_over_a_wide_area_link_costs_fewer_bytes(courier: Start) -> None:
    flow = Flow(40_000, wan=True)
    a, b = courier("a"), courier("b")
    flow.mirror(a, b)
    join(a, b)
    flow.pump(100)
    until(flow.balanced, "ledger")
    (link,) = a.view().links
    assert link.sent < 0.1 * link.sent_raw == pytest.approx(0.1 * 100 * flow.near.spec.layout.nbytes)
    flow.close()


@pytest.mark.parametrize("victim", ["a", "b"])
def test_a_courier_killed_in_mid_flow_loses_and_doubles_nothing(courier: Start, flow: Flow, victim: str) -> None:
    running = {"a": courier("a"), "b": courier("b")}
    flow.mirror(running["a"], running["b"])
    join(running["b"], running["a"])
    (other,) = running.keys() - {victim}
    for _ in range(3):
        flow.pump(40)
        flow.step(flow.made + SLOTS)  # under way while the kill comes
        running[victim].kill()
        survivor = running[other]
        until(lambda: bool(survivor.hear()) or not survivor.alive, "the break was noticed")  # noqa: B023
        survivor.lost.clear()
        for name in [name for name in running if name == victim or not running[name].alive]:
            running[name] = courier(name)  # MPI may end a sender whose large message cannot be delivered
            flow.mirror(*(running[name] if name == end else None for end in "ab"))
        join(running["b"], running["a"])
    flow.pump(40)
    until(flow.balanced, "ledger")


def test_a_frozen_peer_is_noticed_and_nothing_is_lost_when_it_thaws(courier: Start, flow: Flow) -> None:
    a, b = courier("a"), courier("b")
    flow.mirror(a, b)
    join(a, b)
    flow.pump(20)
    flow.step(flow.made + SLOTS)
    b.signal(signal.SIGSTOP)
    try:
        flow.step(flow.made + SLOTS)
        until(lambda: bool(a.hear()), "the freeze was noticed")
    finally:
        b.signal(signal.SIGCONT)
    join(a, b)
    flow.pump(40)
    until(flow.balanced, "ledger")


def test_a_sender_whose_memory_is_new_is_taken_for_another_ring(courier: Start) -> None:
    flow = Flow(SIZES["aggregated"])
    a, b = courier("a"), courier("b")
    flow.mirror(a, b)
    join(a, b)
    flow.pump(10)
    a.kill()
    flow.near.close()
    flow.near = NodeRing(RingSpec("near", flow.far.spec.layout, SLOTS))
    flow._producer = flow.near.producer()
    a = courier("a")
    flow.mirror(a, None)
    join(a, b)
    flow.pump(20)
    until(lambda: flow.near.ledger().released == 20, "the new ring is released")
    assert flow.far.ledger().released == 30
    flow.close()


def test_a_receiver_whose_memory_is_new_gets_what_was_not_released(courier: Start) -> None:
    flow = Flow(SIZES["direct"])
    a, b = courier("a"), courier("b")
    flow.mirror(a, b)
    join(a, b)
    flow.pump(10)
    until(lambda: flow.near.ledger().released == 10, "released")
    for _ in range(3):
        slot = flow._producer.acquire()
        assert slot is not None
        slot.fields["stamp"].fill(flow.made)
        slot.fields["rest"].fill(flow.made % 251)
        flow._producer.commit(10 + flow.made % 3, marker=flow.made % 5)
        flow.made += 1
    until(lambda: flow.far.ledger().committed == 13, "three more came")
    b.kill()
    flow.far.close()
    flow.far = NodeRing(RingSpec("far", flow.near.spec.layout, SLOTS + 1))
    flow._consumer = flow.far.consumer()
    b = courier("b")
    flow.mirror(None, b)
    join(a, b)
    flow.pump(20)
    until(lambda: flow.near.ledger().released == flow.made == 30, "everything is released")
    assert flow.near.ledger().dropped_stale == sum(number % 3 for number in range(30))
    flow.close()


@pytest.mark.parametrize("codec", BoardCodec)
def test_the_newest_version_of_a_board_arrives_and_old_ones_are_skipped(courier: Start, codec: BoardCodec) -> None:
    layout = Layout((Field("params", "float32", (50_000,)), Field("progress", "int64", (4,))))
    near, far = NodeBoard(BoardSpec("near", layout)), NodeBoard(BoardSpec("far", layout))
    a, b = courier("a"), courier("b")
    near.mirror(a, "b", 1, "send", codec)
    far.mirror(b, "a", 1, "receive", codec)
    join(a, b)
    writer, reader = near.writer(), far.reader()
    values = np.random.default_rng(0).normal(size=50_000).astype(np.float32)
    versions = 400
    for version in range(versions):
        fields = writer.begin()
        values += np.float32(0.001)
        fields["params"][:], fields["progress"][:] = values, version
        writer.publish(version)
    until(lambda: reader.version == versions - 1, "the newest version")
    into = {"params": np.empty(50_000, np.float32), "progress": np.empty(4, np.int64)}
    assert reader.read(into) == versions - 1
    assert into["progress"].tolist() == [versions - 1] * 4
    assert np.abs(into["params"] - values).max() <= (0.0 if codec is BoardCodec.PLAIN else 0.004)
    (link,) = b.view().links
    assert 1 <= link.boards_received < versions
    near.close()
    far.close()


def resources(pid: int) -> tuple[int, int]:
    """Resident kilobytes and open descriptors."""
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return resident, len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_fifty_joins_and_leaves_cost_no_descriptor_and_little_memory(courier: Start) -> None:
    a, b = courier("a"), courier("b")
    seen: list[tuple[int, int]] = []
    for cycle in range(60):
        flow = Flow(SIZES["aggregated"])
        flow.mirror(a, b, number=cycle + 1)
        join(a, b)
        flow.pump(5)
        if cycle % 2:
            b.order(Drop(peer="a", forget=True))
            until(lambda: bool(a.hear()), "the peer saw it leave")
            a.lost.clear()
            a.order(Drop(peer="b", forget=True))
        else:
            a.order(Remove(peer="b", number=cycle + 1))
            b.order(Remove(peer="a", number=cycle + 1))
        flow.close()
        seen.append(resources(a.pid))
    (early_kb, early_fds), (late_kb, late_fds) = seen[9], seen[-1]
    assert late_fds <= early_fds + 2
    assert late_kb - early_kb < 50 * 100, f"{(late_kb - early_kb) / 50} KB a join"


def used(pid: int) -> np.ndarray:
    """(core seconds, times that it was given a core) so far."""
    told = [task.read_text().split() for task in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return np.array([sum(int(ran) for ran, _, _ in told) / 1e9, sum(int(turns) for _, _, turns in told)])


def test_an_idle_courier_costs_next_to_nothing(courier: Start) -> None:
    a, b = courier("a"), courier("b")
    flows = [Flow(SIZES["direct"]) for _ in range(8)]
    for number, flow in enumerate(flows):
        flow.mirror(a, b, number + 1)
    join(a, b)
    for flow in flows:
        flow.pump(2)
    time.sleep(0.3)  # the back-off has grown to its longest; what is measured is the steady state
    before, began = [used(one.pid) for one in (a, b)], time.monotonic()
    time.sleep(2.0)
    rates = [
        (used(one.pid) - earlier) / (time.monotonic() - began) for one, earlier in zip((a, b), before, strict=True)
    ]
    for cores, turns in rates:
        assert turns < 300  # it sleeps through most of each hundredth of a second
        assert cores < 0.3  # and does not spin; what a turn costs is the machine's affair
    for flow in flows:
        flow.close()


def test_a_stranger_without_the_key_gets_nothing(courier: Start) -> None:
    flow = Flow(SIZES["aggregated"])
    a, stranger = courier("a"), courier("b", key="cd" * 32)
    flow.mirror(a, stranger)
    join(a, stranger)
    flow.step(SLOTS)
    until(lambda: bool(a.hear() and stranger.hear()), "the stranger was refused")
    assert any("key" in lost.reason for lost in (*a.lost, *stranger.lost)), "who looks first, says it"
    assert flow.far.ledger().committed == 0
    flow.close()


def test_the_transport_is_named_with_its_reason(courier: Start) -> None:
    view = courier("a").view()
    assert view.library.startswith("MPICH")
    assert view.transport in {"tcp", "shm", "verbs", "efa", "psm", "opx", "cxi"}
    assert view.why.startswith(view.transport)


def test_a_courier_leaves_when_its_agent_is_gone(courier: Start) -> None:
    a = courier("a")
    a.end()
    assert a.process.returncode == 0
    assert "the agent is gone" in a.log.read_text()
