"""A real forkserver and real components, with the test in the place of the agent."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.names import partial_folder
from runtime.components.driver import HAND_OVER, REPLACED, ExitReport
from runtime.contract.order import AgentOrder
from runtime.contract.paths import RunPaths
from runtime.contract.plan import Plan
from runtime.contract.states import PHASES, Phase
from runtime.control import fork_protocol as fork
from runtime.control import second_life
from runtime.control.fork_client import MOST_DESCRIPTORS, ForkClient
from runtime.control.orphan_record import read_orphan_record
from runtime.memory.block import StatsBlock
from runtime.memory.board import BoardReader
from runtime.memory.control import Command, ControlBlock
from runtime.memory.ring import read_ledger
from runtime.resources import CONTROL, Resources
from runtime.wiring import block_of, fragments_ring, policy_board, wire
from support.many_nodes import placed, plan_over

PLAN = plan_over(placed("learner-0", "n1"), placed("buffer-0", "n1"), placed("actor-0", "n1"))
MORE = plan_over(*PLAN.placements, placed("actor-1", "n1"), revision=2)


class Node:
    """What an agent has, without the agent."""

    def __init__(self, folder: Path, plan: Plan, node: str) -> None:
        self.paths = RunPaths(folder / "t-run")
        self.paths.logs.mkdir(parents=True)
        self.node, self.plan = node, plan
        self.wiring = wire(plan, node)
        self.resources = Resources.create(self.wiring, shared=True)
        self.control = ControlBlock(self.resources.segment(CONTROL))
        self.paths.plan.write_text(plan.model_dump_json())
        self.forks = ForkClient()
        self.forks.set_up(self.paths.root, node, 1, None, self.resources)
        assert isinstance(self.forks.receive(), fork.Ready)

    def revise(self, plan: Plan) -> None:
        """As an agent does: the plan first, then the memory."""
        self.paths.plan.write_text(plan.model_dump_json())
        before, self.plan, self.wiring = self.wiring, plan, wire(plan, self.node)
        self.forks.extend(*self.resources.descriptors(self.resources.extend(before, self.wiring)))
        if gone := self.resources.drop(before, self.wiring):
            self.forks.forget(gone)

    def spawn(self, name: str, attempt: int = 1) -> int:
        self.forks.spawn(name, attempt)
        born = self.forks.receive()
        assert isinstance(born, fork.Forked)
        return born.pid

    def block(self, name: str) -> StatsBlock:
        return StatsBlock(self.resources.segment(block_of(name)))

    def steady(self, name: str, attempt: int = 1) -> bool:
        block = self.block(name)
        return block.attempt == attempt and PHASES[block.phase] is Phase.STEADY

    def reason(self, name: str, attempt: int = 1) -> str:
        return ExitReport.model_validate_json(self.paths.exit_report(name, attempt).read_bytes()).reason

    def die(self) -> None:
        """The end of an agent that had no time for a word."""
        self.forks._end.close()

    def wait(self, what: Callable[[], Any], within_s: float = 60.0) -> None:
        deadline = time.monotonic() + within_s
        while not what():
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.01)

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in self.paths.logs.iterdir())

    def close(self) -> None:
        self.control.command = Command.STOP
        self.forks.hang_up(10.0)
        self.resources.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path, PLAN, "n1")
    yield node
    node.close()


def test_a_component_hands_over_between_two_ticks_and_nothing_is_lost(node: Node) -> None:
    pids = {name: node.spawn(name) for name in ("learner-0", "buffer-0", "actor-0")}
    node.wait(lambda: node.block("learner-0").get("updates") >= 3)
    for name, pid in pids.items():
        os.kill(pid, HAND_OVER)
        gone = node.forks.receive()
        assert isinstance(gone, fork.Gone)
        assert (gone.component, gone.status, node.reason(name)) == (name, 0, REPLACED)
        if name == "learner-0":
            board = BoardReader(node.resources.segment(policy_board(0)), node.wiring.boards[policy_board(0)])
            assert board.version == node.block("learner-0").get("updates"), "what it had learnt is published"
        node.spawn(name, 2)
    updates = node.block("learner-0").get("updates")
    node.wait(lambda: node.block("learner-0").get("updates") >= updates + 3)


def test_a_component_that_is_told_to_hand_over_before_it_has_begun_does_so_when_it_has(node: Node) -> None:
    os.kill(node.spawn("learner-0"), HAND_OVER)
    gone = node.forks.receive()
    assert isinstance(gone, fork.Gone)
    assert (gone.status, node.reason("learner-0")) == (0, REPLACED)


def test_who_is_forked_after_a_revision_has_its_memory(node: Node) -> None:
    for name in ("learner-0", "buffer-0", "actor-0"):
        node.spawn(name)
    node.wait(lambda: node.block("learner-0").get("updates") >= 1)
    node.revise(MORE)
    node.spawn("actor-1")
    ring = fragments_ring("actor-1")
    node.wait(lambda: read_ledger(node.resources.segment(ring), node.wiring.rings[ring]).committed == 2)
    node.revise(PLAN)  # the buffer never read it, so nothing of it is missed
    node.spawn("actor-1", 2)
    gone = node.forks.receive()
    assert isinstance(gone, fork.Gone)
    assert gone.status == 1, "its memory is gone, and the plan does not know it"
    assert node.steady("actor-0")


def test_a_forkserver_keeps_nothing_of_those_who_came_and_went(node: Node) -> None:
    held = Path(f"/proc/{node.forks.pid}/fd")
    for name in ("learner-0", "actor-0"):
        node.spawn(name)
        node.wait(partial(node.steady, name))  # who is on its way reads the plan of the moment
    before = len(list(held.iterdir()))
    for attempt in range(1, 6):
        node.revise(MORE)
        os.kill(node.spawn("actor-1", attempt), HAND_OVER)
        node.forks.receive()
        node.revise(PLAN)
    node.wait(lambda: len(list(held.iterdir())) == before)


def test_the_guardian_of_the_head_saves_also_where_the_plan_is_ahead_of_the_memory(tmp_path: Path) -> None:
    node = Node(tmp_path, PLAN, "n1")
    for name in ("learner-0", "buffer-0", "actor-0"):
        node.spawn(name)
    node.wait(lambda: node.block("learner-0").get("updates") >= 1)
    grown = plan_over(*PLAN.placements, placed("learner-1", "n1", 1), placed("buffer-1", "n1", 1), revision=2)
    node.paths.plan.write_text(grown.model_dump_json())
    node.die()
    assert node.forks._process.wait(30.0) == 0
    record = read_orphan_record(node.paths.orphaned)
    assert record is not None
    assert record.step is not None
    assert {path.stem for path in partial_folder(node.paths.checkpoints, record.step).glob("*.json")} >= {
        "learner-0",
        "buffer-0",
    }
    node.resources.close()


def two_nodes(folder: Path) -> Node:
    """The second of two nodes, with an order for its agent."""
    plan = plan_over(placed("learner-0", "n1"), placed("buffer-0", "n1"), placed("actor-0", "n2"))
    node = Node(folder, plan, "n2")
    order = AgentOrder(
        run=str(node.paths.root), node="n2", head=False, coordinator="tcp://127.0.0.1:9", network="127.0.0.0/8"
    )
    node.paths.order.write_text(order.model_dump_json())
    return node


def test_the_guardian_of_a_node_that_is_not_the_head_becomes_its_next_agent(tmp_path: Path) -> None:
    node = two_nodes(tmp_path)
    actor = node.spawn("actor-0")
    node.wait(lambda: node.steady("actor-0"))
    guardian = node.forks.pid
    node.die()
    command = Path(f"/proc/{guardian}/cmdline")
    try:
        node.wait(lambda: b"--order" in command.read_bytes())
        assert not Path(f"/proc/{actor}").exists()
        assert not node.control.checkpoint_request
        assert not [path for path in Path(f"/proc/{guardian}/fd").iterdir() if "memfd" in _target(path)]
        assert len(json.loads(node.paths.second_lives.read_text())["at"]) == 1
    finally:
        node.forks._process.kill()
        node.forks._process.wait()
        node.resources.close()


def _target(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


@pytest.mark.parametrize("ends", ["dismissed", "too often"])
def test_no_agent_follows_one_that_left_in_good_order_or_that_dies_again_and_again(tmp_path: Path, ends: str) -> None:
    node = two_nodes(tmp_path)
    node.spawn("actor-0")
    if ends == "dismissed":
        node.forks.hang_up(20.0)
    else:
        node.paths.second_lives.write_text(
            second_life.SecondLives(at=(time.time(),) * second_life.MOST).model_dump_json()
        )
        node.die()
        node.forks._process.wait(20.0)
    assert node.forks._process.returncode == 0, "it left; as an agent without a coordinator it would not have"
    assert ("no other takes its place" in node.logs()) == (ends == "too often")
    node.resources.close()


def test_lives_that_ended_long_ago_do_not_count() -> None:
    lives = second_life.SecondLives()
    for now in (0.0, 1.0, 2.0):
        lives = lives.one_more(now) or pytest.fail("three are allowed")
    assert lives.one_more(3.0) is None
    assert lives.one_more(second_life.WITHIN_S + 0.5) is not None


def test_an_agent_has_as_many_descriptors_as_it_may(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
    try:
        node = Node(tmp_path, PLAN, "n1")
        node.close()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, MOST_DESCRIPTORS)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_signal_that_is_not_meant_for_a_hand_over_is_a_death(node: Node) -> None:
    pid = node.spawn("learner-0")
    node.wait(lambda: node.steady("learner-0"))
    os.kill(pid, signal.SIGTERM)
    gone = node.forks.receive()
    assert isinstance(gone, fork.Gone)
    assert gone.status == 1
