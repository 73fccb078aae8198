"""An agent whose plan changes while it works, and one on a node that is not the head."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.messages import AskStop, Hello, Report, Shutdown, Stop
from runtime.contract.plan import Placement, Plan
from runtime.contract.states import ComponentState, RunState
from runtime.control import fork_protocol as fork
from runtime.control.agent import SETTLE_WITHIN_S
from runtime.control.assignment import assignment
from runtime.memory.control import Command
from runtime.wiring import block_of, fragments_ring
from support.agent_rig import Rig
from support.many_nodes import placed, plan_over


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """The head, with L1A1 at work."""
    rig = Rig(tmp_path, monkeypatch)
    rig.work()
    yield rig
    rig.crew.close()
    rig.resources.close()


@pytest.fixture
def member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """Another node, without a plan yet."""
    rig = Rig(tmp_path, monkeypatch, node="localhost")
    yield rig
    rig.crew.close()
    rig.resources.close()


def changed(plan: Plan, *, add: tuple[Placement, ...] = (), leaving: str = "", without: str = "") -> Plan:
    placements = [
        p.model_copy(update={"leaving": p.leaving or p.name == leaving}) for p in plan.placements if p.name != without
    ]
    return plan.model_copy(update={"revision": plan.revision + 1, "placements": (*placements, *add)})


ACTOR_1 = placed("actor-1", "localhost")


def test_what_is_new_is_started_with_its_memory_and_who_is_connected_to_it_is_replaced(rig: Rig) -> None:
    rig.assign(changed(rig.plan, add=(ACTOR_1,)))
    assert rig.forks.ordered[-1] == ("actor-1", 1)
    assert {f"segment:{fragments_ring('actor-1')}", f"segment:{block_of('actor-1')}"} <= rig.forks.held
    assert set(rig.signals) == {("buffer-0", signal.SIGUSR2), ("learner-0", signal.SIGUSR2)}, "new ring; new reader"
    rig.end("buffer-0")
    assert rig.forks.ordered[-1] == ("buffer-0", 2)
    rig.look()
    assert rig.report.revision == 2
    assert {c.name: c.restarts for c in rig.report.components} == dict.fromkeys(rig.names, 0)
    assert fragments_ring("actor-1") in rig.report.rings


def test_an_actor_that_leaves_is_told_and_forgotten_once_the_plan_has_it_no_more(rig: Rig) -> None:
    leaving = changed(rig.plan, leaving="actor-0")
    rig.assign(leaving)
    assert ("actor-0", signal.SIGUSR2) in rig.signals
    assert rig.states()["actor-0"] is ComponentState.STOPPING
    rig.end("actor-0")
    rig.look()
    assert rig.states()["actor-0"] is ComponentState.EXITED
    assert f"segment:{block_of('actor-0')}" in rig.forks.held
    rig.assign(changed(leaving, without="actor-0"))
    rig.look()
    assert "actor-0" not in rig.states()
    assert not {name for name in rig.forks.held if "actor-0" in name}
    assert fragments_ring("actor-0") not in rig.report.rings


def test_who_is_dropped_while_it_still_works_keeps_its_block_until_it_has_left(rig: Rig) -> None:
    rig.block("actor-0").add_episodes([3.0], [4])
    rig.assign(changed(rig.plan, without="actor-0"))
    assert ("actor-0", signal.SIGUSR2) in rig.signals
    assert "actor-0" not in rig.states()
    held = {name for name in rig.forks.held if "actor-0" in name}
    assert held == {f"segment:{block_of('actor-0')}"}, "its rings are gone at once: it has them mapped"
    rig.block("actor-0").add_episodes([5.0], [6])
    rig.end("actor-0")
    rig.look()
    assert not {name for name in rig.forks.held if "actor-0" in name}
    episodes = [e.episode_return for report in rig.wire.of(Report) for e in report.episodes]
    assert episodes == [3.0, 5.0], "also what it did last is told"
    assert "component.exited" in {e.kind for report in rig.wire.of(Report) for e in report.events}


def test_a_plan_waits_until_those_that_are_being_made_have_read_the_one_before(rig: Rig) -> None:
    rig.end("actor-0", status=-9)
    rig.assign(changed(rig.plan, add=(ACTOR_1,)))
    assert rig.report.revision == 1
    rig.born("actor-0", attempt=2)
    rig.look()
    assert rig.report.revision == 2
    rig.end("actor-0", attempt=2, status=-9)
    rig.look(0.6)
    rig.assign(changed(changed(rig.plan, add=(ACTOR_1,)), leaving="actor-1"))
    rig.look(SETTLE_WITHIN_S / 2)
    assert rig.report.revision == 2
    rig.look(SETTLE_WITHIN_S)
    assert rig.report.revision == 3, "but not for ever: it may die again and again"


def test_an_older_plan_and_one_that_comes_after_the_end_are_ignored(rig: Rig) -> None:
    rig.assign(rig.plan)
    assert rig.signals == []
    rig.tell(Stop(reason="enough"))
    rig.assign(changed(rig.plan, add=(ACTOR_1,)))
    assert rig.report.revision == 1


def test_a_plan_whose_memory_cannot_be_made_changes_nothing_and_says_so(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> list[str]:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(rig.resources, "extend", refuse)
    rig.assign(changed(rig.plan, add=(ACTOR_1,)))
    assert rig.report.revision == 1
    assert rig.signals == []
    (event,) = [e for report in rig.wire.of(Report) for e in report.events if e.kind == "plan.refused"]
    assert "Cannot allocate memory" in event.message


def test_what_could_not_be_sent_is_sent_later_and_once(rig: Rig) -> None:
    rig.wire.broken = True
    rig.block("actor-0").add_episodes([1.0], [1])
    rig.agent._outbox.log("something.happened", "once")
    rig.look()
    rig.block("actor-0").add_episodes([2.0], [1])
    rig.look()
    rig.wire.broken = False
    before = len(rig.wire.of(Report))
    rig.look()
    rig.look()
    told = rig.wire.of(Report)[before:]
    assert [e.episode_return for report in told for e in report.episodes] == [1.0, 2.0]
    assert [e.kind for report in told for e in report.events] == ["something.happened"]


def test_a_run_that_waits_for_a_node_pauses_its_components(rig: Rig) -> None:
    rig.ack(paused=True)
    assert rig.control.pause
    rig.ack()
    assert not rig.control.pause


def test_an_agent_that_is_let_in_again_introduces_itself_again(member: Rig) -> None:
    member.wire.connections = 1
    member.look()
    member.look()
    member.wire.connections = 2
    member.look()
    hellos = member.wire.of(Hello)
    assert [(hello.revision, hello.instance) for hello in hellos] == [(0, "0123456789abcdef")] * 2


def test_a_node_without_a_plan_reports_and_begins_when_it_is_sent_one(member: Rig) -> None:
    member.look()
    assert (member.report.revision, member.report.components) == (0, ())
    member.ack(paused=False)
    member.assign(member.plan)
    assert Plan.model_validate_json(member.paths.plan.read_bytes()) == member.plan
    assert member.report.revision == 1
    assert set(member.states().values()) == {ComponentState.PENDING}
    member.hear(fork.Ready())
    assert {name for name, _ in member.forks.ordered} == {p.name for p in member.plan.placements}


def test_an_actor_that_is_leaving_when_its_node_begins_is_never_made(member: Rig) -> None:
    member.assign(changed(member.plan, leaving="actor-0"))
    member.hear(fork.Ready())
    member.look()
    assert member.states()["actor-0"] is ComponentState.EXITED
    assert "actor-0" not in {name for name, _ in member.forks.ordered}


def test_a_node_whose_coordinator_is_gone_for_good_writes_a_last_checkpoint_and_leaves(member: Rig) -> None:
    member.assign(member.plan)
    member.work()
    member.ack()
    for _ in range(12):
        member.look(0.9)
    step = member.control.checkpoint_request
    assert step >= 7
    assert member.control.command == Command.NONE
    for name in ("learner-0", "buffer-0"):
        assert member.control.command == Command.NONE
        member.block(name).checkpoint_done = step
        member.look()
    assert member.control.command == Command.STOP
    assert not member.agent._over
    for name in member.names:
        member.end(name)
    member.look()
    assert member.agent._over


def test_a_coordinator_that_comes_back_before_the_end_ends_nothing(member: Rig) -> None:
    member.assign(member.plan)
    member.work()
    for _ in range(12):
        member.look(0.9)
    assert member.control.checkpoint_request > 0
    member.ack()
    for name in ("learner-0", "buffer-0"):
        member.block(name).checkpoint_done = member.control.checkpoint_request
    member.look()
    assert member.control.command == Command.NONE


def test_a_run_that_is_over_leaves_nothing_to_restart(member: Rig) -> None:
    member.assign(member.plan)
    member.work()
    member.tell(Shutdown(state=RunState.STOPPED, reason="enough"))
    assert member.agent._over
    assert member.control.command == Command.STOP
    assert not member.wire.of(AskStop)


def test_the_difference_of_two_plans_is_what_changes_on_this_node() -> None:
    before = plan_over(*(placed(name, "a") for name in ("learner-0", "buffer-0", "actor-0")), placed("actor-1", "b"))
    after = plan_over(
        *(placed(name, "a") for name in ("learner-0", "buffer-0")), placed("actor-0", "a", leaving=True),
        placed("actor-2", "b"), placed("actor-3", "c"),
    )  # fmt: skip
    here = assignment(before, after, "a")
    assert ([p.name for p in here.start], here.leave, here.retire) == ([], ("actor-0",), ())
    assert set(here.replace) == {"buffer-0", "learner-0"}, "other rings; one more node reads the policy"
    there = assignment(before, after, "b")
    assert ([p.name for p in there.start], there.replace, there.retire) == (["actor-2"], (), ("actor-1",))
    assert assignment(after, after, "a") == assignment(before, before, "b")
