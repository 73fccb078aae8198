"""What nodes share fits together, whoever is where: both ends of everything exist, once, and agree."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime import wiring as names
from runtime.contract.plan import Placement, Plan
from runtime.contract.states import Role
from runtime.wiring import MOST_ACTORS, Mirror, Wiring, inputs_of, wire
from support.many_nodes import placed, plan_over
from support.plans import make_job

NODES = ("n1", "n2", "n3", "n4")
JOBS = {
    name: make_job(name, **({"algorithm": {"replay": {"kind": "proportional"}}} if name == "dqn" else {}))
    for name in ("ppo", "dqn")
}


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Groups with gaps in their numbers, actors anywhere, perhaps an evaluator and learners that join."""
    groups = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True))
    node = st.sampled_from(NODES)
    placements, actor = [], 0
    for number, group in enumerate(groups):
        home = draw(node)
        learner = placed(f"learner-{group}", home, group)
        if number and draw(st.booleans()):
            learner = learner.model_copy(update={"donor": groups[0]})
        placements += [learner, placed(f"buffer-{group}", home, group)]
        for host in draw(st.lists(node, min_size=1, max_size=4)):
            actor += draw(st.integers(1, 3))
            placements.append(placed(f"actor-{actor}", host, group, leaving=draw(st.booleans())))
    if draw(st.booleans()):
        placements.append(placed("evaluator-0", draw(node), groups[-1]))
    return plan_over(*placements, job=JOBS[draw(st.sampled_from(("ppo", "dqn")))])


def wired(plan: Plan) -> dict[str, Wiring]:
    return {host.name: wire(plan, host.name) for host in plan.hosts}


@settings(max_examples=60, deadline=None)
@given(plan=plans())
def test_every_mirror_has_its_other_end_with_the_same_number_kind_name_and_layout(plan: Plan) -> None:
    wirings = wired(plan)
    for node, wiring in wirings.items():
        assert max(Counter((m.peer, m.number) for m in wiring.mirrors).values(), default=1) == 1
        for mirror in wiring.mirrors:
            there = "receive" if mirror.end == "send" else "send"
            other = wirings[mirror.peer]
            assert Mirror(mirror.number, mirror.kind, mirror.name, node, there) in other.mirrors
            if mirror.kind == "board":
                assert wiring.boards[mirror.name] == other.boards[mirror.name]
            else:
                near, far = (wiring, other) if mirror.end == "send" else (other, wiring)
                assert near.rings[mirror.name].layout == far.rings[mirror.name].layout
                assert near.rings[mirror.name].slots + 1 == far.rings[mirror.name].slots
        assert wiring.peers == tuple(sorted({mirror.peer for mirror in wiring.mirrors}))


@settings(max_examples=60, deadline=None)
@given(plan=plans())
def test_every_ring_has_one_producer_and_one_consumer_over_all_nodes(plan: Plan) -> None:
    wirings = wired(plan)
    for actor in plan.of_role(Role.ACTOR):
        name, home = names.fragments_ring(actor.name), plan.home(actor.group)
        assert {node for node, wiring in wirings.items() if name in wiring.rings} == {actor.host, home}
        ends = [(node, m.end) for node, wiring in wirings.items() for m in wiring.mirrors if m.name == name]
        assert sorted(ends) == (sorted([(actor.host, "send"), (home, "receive")]) if actor.host != home else [])
    for group in plan.groups:
        for name in (names.batches_ring(group), names.priorities_ring(group), names.replay_memory(group)):
            holders = [node for node, w in wirings.items() if name in w.rings or name in w.replays]
            off_policy_only = not name.startswith("batches")
            assert holders == ([] if off_policy_only and plan.job.on_policy else [plan.home(group)])


@settings(max_examples=60, deadline=None)
@given(plan=plans())
def test_a_board_reaches_the_node_of_every_reader_once_and_no_other(plan: Plan) -> None:
    wirings = wired(plan)
    for group in plan.groups:
        home = plan.home(group)
        readers = {
            names.policy_board(group): [
                p
                for p in plan.placements
                if (p.role is Role.LEARNER) != (p.group == group) and p.role is not Role.BUFFER
            ],
            names.state_board(group): [p for p in plan.of_role(Role.LEARNER) if p.donor == group],
        }
        for board, who in readers.items():
            nodes = {p.host for p in who}
            assert {node for node, wiring in wirings.items() if board in wiring.boards} == nodes | {home}
            receivers = [
                node for node, w in wirings.items() for m in w.mirrors if (m.name, m.end) == (board, "receive")
            ]
            assert sorted(receivers) == sorted(nodes - {home})
            couriers = [name for name in wirings[home].board_readers[board] if name.startswith("courier.")]
            assert couriers == [f"courier.{node}" for node in sorted(nodes - {home})]
            woken = {name for w in wirings.values() for name in w.board_readers.get(board, ())} - set(couriers)
            assert woken == {p.name for p in who if p.role is Role.ACTOR}


@settings(max_examples=60, deadline=None)
@given(plan=plans())
def test_every_component_and_every_courier_has_a_block_of_its_own(plan: Plan) -> None:
    wirings = wired(plan)
    assert sorted(name for w in wirings.values() for name in w.components) == sorted(p.name for p in plan.placements)
    for wiring in wirings.values():
        blocks = {name for name in wiring.segments() if name.startswith("block.")}
        expected = [*wiring.components, *(f"courier.{peer}" for peer in wiring.peers)]
        assert blocks == {names.block_of(name) for name in expected}
        assert len(wiring.events()) == len(set(wiring.events()))


@settings(max_examples=30, deadline=None)
@given(plan=plans())
def test_a_part_of_the_plan_that_goes_leaves_the_memory_of_the_others_as_it_is(plan: Plan) -> None:
    """Segments are formatted once: what has a name in two revisions must be the same thing in both."""
    for fewer, more in pairwise([plan.placements[:count] for count in range(2, len(plan.placements) + 1)]):
        before, after = (plan.model_copy(update={"placements": part}) for part in (fewer, more))
        for host in plan.hosts:
            old, new = wire(before, host.name), wire(after, host.name)
            common = old.segments().keys() & new.segments().keys()
            assert all(old.segments()[name] == new.segments()[name] for name in common)


BASE = (
    placed("learner-0", "n1"),
    placed("buffer-0", "n1"),
    placed("actor-0", "n1"),
    placed("actor-1", "n2"),
)
SECOND = (placed("learner-1", "n2", 1), placed("buffer-1", "n2", 1), placed("actor-2", "n2", 1))


def changed(*placements: Placement, before: tuple[Placement, ...] = BASE) -> set[str]:
    """Who is replaced when the plan becomes that one."""
    old, new = plan_over(*before), plan_over(*placements)
    both = [(p.name, p.host) for p in old.placements if p.name in {q.name for q in new.placements}]
    return {name for name, host in both if inputs_of(old, host, name) != inputs_of(new, host, name)}


@pytest.mark.parametrize(
    ("after", "replaced"),
    [
        (BASE, set()),
        ((*BASE, placed("actor-2", "n1")), {"buffer-0", "learner-0"}),
        ((*BASE, placed("actor-2", "n2")), {"buffer-0"}),
        (BASE[:3], {"buffer-0", "learner-0"}),
        ((*BASE, *SECOND), {"learner-0"}),
        ((*BASE, placed("evaluator-0", "n1")), set()),
        ((*BASE, placed("evaluator-0", "n2")), set()),
        ((*BASE, placed("evaluator-0", "n3")), {"learner-0"}),
        ((*BASE[:3], placed("actor-1", "n2", leaving=True)), set()),
        ((*BASE[:2], placed("actor-0", "n1", leaving=True), placed("actor-1", "n2", leaving=True)), {"buffer-0"}),
    ],
)
def test_who_is_replaced_is_who_has_other_ends_than_before(after: tuple[Placement, ...], replaced: set[str]) -> None:
    assert changed(*after) == replaced


def test_a_learner_that_gives_its_state_to_another_is_not_replaced_once_more_when_that_is_done() -> None:
    joining = (SECOND[0].model_copy(update={"donor": 0}), *SECOND[1:])
    assert changed(*BASE, *SECOND, before=(*BASE, *joining)) == set()


def test_a_ring_whose_group_is_gone_stays_with_its_actor_and_goes_nowhere() -> None:
    plan = plan_over(*BASE[2:], *SECOND)
    assert names.fragments_ring("actor-1") in wire(plan, "n2").rings
    assert names.fragments_ring("actor-1") not in {m.name for m in wire(plan, "n2").mirrors}


def test_more_actors_than_a_buffer_can_tell_apart_are_refused() -> None:
    with pytest.raises(ValueError, match=f"actor-{MOST_ACTORS}"):
        wire(plan_over(*BASE, placed(f"actor-{MOST_ACTORS}", "n1")), "n1")
