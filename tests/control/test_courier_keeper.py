"""Two keepers with real couriers in one process, brought together as a coordinator would."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.contract.job import HealthConfig
from runtime.contract.paths import RunPaths
from runtime.contract.states import ComponentState as S
from runtime.control.courier_keeper import CourierKeeper
from runtime.courier.starting import start_courier
from runtime.memory.board import BoardReader, BoardWriter
from runtime.memory.control import Command, ControlBlock
from runtime.memory.ring import Consumer, Producer, read_ledger
from runtime.resources import CONTROL, Resources
from runtime.wiring import Wiring, fragments_ring, policy_board, wire
from support.many_nodes import placed, plan_over

KEY = "ab" * 32
PATIENCE_S = 60.0

BOTH_WAYS = plan_over(
    *(placed("learner-0", "a"), placed("buffer-0", "a"), placed("actor-0", "b")),
    *(placed("learner-1", "b", 1), placed("buffer-1", "b", 1), placed("actor-1", "a", 1)),
)


def started(_name: str, _attempt: int, socket: Path, log: Path) -> subprocess.Popen[bytes]:
    return start_courier(socket, log, interface="lo")


class End:
    """One node: its memory, and the keeper of its link to the other."""

    def __init__(self, folder: Path, node: str, peer: str) -> None:
        self.node, self.peer = node, peer
        self.paths = RunPaths(folder / node / "run-of-a-test")
        for made in (self.paths.logs, self.paths.keys):
            made.mkdir(parents=True)
        (self.paths.keys / "link.key").write_text(KEY)
        self.wiring: Wiring = wire(BOTH_WAYS, node)
        self.resources = Resources.create(self.wiring, shared=True)
        self.said: list[tuple[str, str]] = []
        health = HealthConfig(init=20, steady=1.0, stop_grace=2.0)
        self.keeper = CourierKeeper(
            peer, self.paths, self.resources, health, start=started,
            log=lambda kind, message, _cause: self.said.append((kind, message)),
        )  # fmt: skip
        self.keeper.assign(self.wiring, wan=False)

    @property
    def pid(self) -> int:
        assert self.keeper.life.pid is not None
        return self.keeper.life.pid

    def producer(self, ring: str) -> Producer:
        return Producer(self.resources.segment(ring), self.wiring.rings[ring], **self._ready(ring))

    def consumer(self, ring: str) -> Consumer:
        return Consumer(self.resources.segment(ring), self.wiring.rings[ring], **self._ready(ring))

    def _ready(self, ring: str) -> dict[str, object]:
        return {f"{side}_ready": self.resources.event(f"{ring}:{side}") for side in ("data", "space")}

    def ledger(self, ring: str) -> object:
        return read_ledger(self.resources.segment(ring), self.wiring.rings[ring])

    def close(self) -> None:
        if self.keeper.life.pid is not None:
            os.kill(self.pid, signal.SIGCONT)
        self.keeper.stop("the test is over")
        ControlBlock(self.resources.segment(CONTROL)).command = Command.STOP
        self.keeper.hear()


class Flow:
    """The ring of an actor: made on its node, consumed at its group's home; every stamp is checked."""

    def __init__(self, actor: str, near: End, far: End) -> None:
        self.ring = fragments_ring(actor)
        self.near, self.far = near, far
        self._producer, self._consumer = near.producer(self.ring), far.consumer(self.ring)
        self.made = self.seen = 0

    def step(self, most: int) -> None:
        while self.made < most and (slot := self._producer.acquire()) is not None:
            for values in slot.fields.values():
                values.fill(self.made % 100)
            self._producer.commit(8)
            self.made += 1
        while (slot := self._consumer.peek()) is not None:
            assert all((values == type(values.flat[0])(self.seen % 100)).all() for values in slot.fields.values())
            self._consumer.release(consumed=8)
            self.seen += 1

    @property
    def balanced(self) -> bool:
        return self.seen == self.made and self.near.ledger(self.ring) == self.far.ledger(self.ring)


class Pair:
    """Both ends, looked after as two agents would."""

    def __init__(self, folder: Path) -> None:
        self.a, self.b = End(folder, "a", "b"), End(folder, "b", "a")
        self.ends = (self.a, self.b)
        self.serial = 0
        self.longest_look_s = 0.0

    def until(self, true: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not true():
            now = time.monotonic()
            states = [(end.keeper.life.state, end.keeper.report().model_dump()) for end in self.ends]
            assert now < deadline, f"not within {timeout_s} s: {what}; {states}"
            for end in self.ends:
                end.keeper.look(now)
            self.longest_look_s = max(self.longest_look_s, time.monotonic() - now)
            time.sleep(0.002)

    def states(self) -> set[str]:
        return {end.keeper.report().state for end in self.ends}

    def join(self) -> None:
        """As the coordinator does: one opens, then both are told."""
        self.until(lambda: "starting" not in self.states(), "both couriers are there")
        self.serial += 1
        self.a.keeper.open(self.serial)
        self.until(lambda: self.a.keeper.report().state == "open", "the port is open")
        self.a.keeper.join(self.serial, None)
        self.b.keeper.join(self.serial, self.a.keeper.report().port)
        self.until(lambda: self.states() == {"up"}, "the link is up")
        assert {end.keeper.report().serial for end in self.ends} == {self.serial}

    def flows(self) -> list[Flow]:
        return [Flow("actor-0", self.b, self.a), Flow("actor-1", self.a, self.b)]

    def pump(self, flows: list[Flow], slots: int) -> None:
        """Until `slots` more came through each of them."""
        goals = {flow.ring: flow.seen + slots for flow in flows}

        def done() -> bool:
            for flow in flows:
                flow.step(goals[flow.ring])
            return all(flow.seen >= goals[flow.ring] for flow in flows)

        self.until(done, f"{slots} slots each way")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    asked = "import mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI"
    if subprocess.run([sys.executable, "-c", asked], capture_output=True, check=False).returncode != 0:
        pytest.skip("no MPI library")
    made = Pair(tmp_path)
    yield made
    for end in made.ends:
        end.close()
    made.until(lambda: all(end.keeper.over for end in made.ends), "both couriers have left")
    for end in made.ends:
        end.keeper.close()
        end.resources.close()


def test_rings_and_boards_go_both_ways_and_numbers_come_back(pair: Pair) -> None:
    assert (pair.a.paths.courier_socket("b").stat().st_mode & 0o777) == 0o600
    pair.join()
    flows = pair.flows()
    pair.pump(flows, 50)
    pair.until(lambda: all(flow.balanced for flow in flows), "both ledgers agree")
    for home, reads, group in ((pair.a, pair.b, 0), (pair.b, pair.a, 1)):
        board = policy_board(group)
        spec = home.wiring.boards[board]
        writer = BoardWriter(
            home.resources.segment(board), spec, readers=[home.resources.event(f"{board}:courier.{home.peer}")]
        )
        for values in writer.begin().values():
            values.fill(3)
        writer.publish(7)
        reader = BoardReader(reads.resources.segment(board), spec)
        pair.until(lambda: reader.version == 7, "the policy is there")  # noqa: B023
    pair.until(lambda: all(end.keeper.report().sent > 0 for end in pair.ends), "numbers of the link")
    report = pair.a.keeper.report()
    assert (report.peer, report.joins, report.transport) == ("b", 1, "tcp")
    assert report.why.startswith("tcp")
    assert pair.longest_look_s < 2.5, "nothing here waits for a courier"


def test_a_killed_courier_is_replaced_and_nothing_is_lost_or_doubled(pair: Pair) -> None:
    pair.join()
    flows = pair.flows()
    for victim in pair.ends:
        pair.pump(flows, 20)
        for flow in flows:
            flow.step(flow.made + 3)  # under way while the kill comes
        before = victim.pid
        os.kill(before, signal.SIGKILL)
        pair.until(lambda: "up" not in pair.states(), "both ends know of the break")
        pair.join()
        assert victim.pid != before
    pair.pump(flows, 20)
    pair.until(lambda: all(flow.balanced for flow in flows), "both ledgers agree")
    assert pair.a.keeper.life.restarts >= 1
    assert pair.a.keeper.report().joins == 3
    assert "component.died" in {kind for kind, _ in pair.a.said}


def test_a_join_that_nobody_answers_is_over_after_a_while_and_holds_up_nobody(pair: Pair) -> None:
    pair.until(lambda: pair.states() == {"ready"}, "both couriers are there")
    pair.a.keeper.open(1)
    pair.until(lambda: pair.a.keeper.report().state == "open", "the port is open")
    began = time.monotonic()
    pair.a.keeper.join(1, None)
    assert pair.a.keeper.report().state == "joining"
    pair.until(lambda: pair.a.keeper.report().state == "lost", "the join is over")
    assert time.monotonic() - began > 2.0
    assert "no peer within 3 s" in pair.a.keeper.report().reason
    assert pair.longest_look_s < 2.5  # one that waited for the join would have taken three
    assert pair.a.keeper.life.state is S.RUNNING, "a courier that waits for its peer is not frozen"
    pair.serial = 1
    pair.join()


def test_a_frozen_courier_is_replaced(pair: Pair) -> None:
    pair.join()
    flows = pair.flows()
    pair.pump(flows, 5)
    before = pair.b.pid
    os.kill(before, signal.SIGSTOP)
    pair.until(lambda: pair.b.keeper.life.attempt == 2, "its successor is started")
    assert "component.frozen" in {kind for kind, _ in pair.b.said}
    pair.until(lambda: "up" not in pair.states(), "both ends know of the break")
    pair.join()
    pair.pump(flows, 5)
    assert not Path(f"/proc/{before}").exists()


def test_a_reset_makes_a_new_courier_that_costs_no_restart(pair: Pair) -> None:
    pair.join()
    flows = pair.flows()
    pair.pump(flows, 5)
    pair.a.keeper.reset(2)
    assert pair.a.keeper.report().state == "starting"
    pair.a.keeper.reset(2)
    pair.serial = 2
    pair.until(lambda: "up" not in pair.states(), "the other end knows of it")
    pair.join()
    pair.pump(flows, 5)
    assert (pair.a.keeper.life.attempt, pair.a.keeper.life.restarts) == (2, 0)


def test_mirrors_come_and_go_with_the_plan(pair: Pair) -> None:
    pair.join()
    flows = pair.flows()
    pair.pump(flows, 5)
    one_way = plan_over(*(p for p in BOTH_WAYS.placements if p.name != "actor-1"))
    for end in pair.ends:
        end.keeper.assign(wire(one_way, end.node), wan=False)
    pair.pump(flows[:1], 5)
    flows[1].step(flows[1].made + 2)
    pair.pump(flows[:1], 20)
    assert flows[1].seen == 5, "what is mirrored no more stays where it is"
    for end in pair.ends:
        end.keeper.assign(end.wiring, wan=False)
    pair.until(lambda: "up" not in pair.states(), "a number that comes again begins with a new join")
    pair.join()
    pair.pump(flows, 5)
    pair.until(lambda: all(flow.balanced for flow in flows), "both ledgers agree")


def test_a_keeper_that_is_not_needed_any_more_is_gone_at_once_and_with_it_the_memory_it_looks_at(
    tmp_path: Path,
) -> None:
    paths = RunPaths(tmp_path / "run-of-a-test")
    paths.keys.mkdir(parents=True)
    (paths.keys / "link.key").write_text(KEY)
    resources = Resources.create(wire(BOTH_WAYS, "a"), shared=True)
    gc.disable()  # an agent makes so few objects that the collector rarely comes by
    try:
        keeper = CourierKeeper("b", paths, resources, HealthConfig(), start=started, log=lambda *_: None)
        keeper.leave()
        keeper.close()
        seen = weakref.ref(keeper)
        del keeper
        assert seen() is None
    finally:
        gc.enable()
        resources.close()
