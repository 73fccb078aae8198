"""Whatever happens to a run, in whatever order: what must hold of its plan after each change."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.contract.arrangement import ArrangementError, can_hold, rearrange, regroup, settle
from runtime.contract.plan import HostPlan, Plan
from runtime.contract.shape import Shape
from runtime.contract.states import Role
from support.arranged import faults, nodes, plan_over, shape_of, staying

ROLES = st.sampled_from([(), (), (), (Role.LEARNER,), (Role.ACTOR,), (Role.LEARNER, Role.ACTOR)])
SHAPES = st.builds(lambda learners, more: Shape(learners, learners + more), st.integers(1, 5), st.integers(0, 12))
OPERATIONS = ("scale", "scale", "settle", "settle", "away", "back", "gone", "leave", "join")


@st.composite
def first_plans(draw: st.DrawFn) -> Plan:
    """A plan over one to six nodes; where the shape drawn does not fit, the nearest that does."""
    cores = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    hosts = [host.model_copy(update={"roles": draw(ROLES)}) for host in nodes(*cores)]
    hosts[0] = hosts[0].model_copy(update={"roles": (), "cores": (*hosts[0].cores, 7)})  # L1A1 always fits
    parts = {
        "oversubscribe": draw(st.booleans()),
        "algorithm": draw(st.sampled_from(["ppo", "ppo", "dqn"])),
        "evaluation": {"enabled": draw(st.booleans())},
    }
    if draw(st.booleans()):
        parts["training"] = {"batch_size": 256}
    wanted = draw(SHAPES)
    try:
        return plan_over(hosts, str(wanted), **parts)
    except ArrangementError as error:
        nearest = fitting(error)
        return plan_over(hosts, str(nearest or "L1A1"), **parts)


def fitting(error: ArrangementError) -> Shape | None:
    """The shape that the hint names."""
    found = re.match(r"L\d+A\d+", error.hint)
    return None if found is None else Shape.parse(found[0])


class Life:
    """A run's plan through its changes. Every change is held against what must hold of any."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.away: frozenset[str] = frozenset()
        self.known = {p.name: p for p in plan.placements}
        assert faults(plan) == []

    def take(self, after: Plan, *, left: frozenset[str] = frozenset()) -> None:
        """`after` follows; `left` are nodes whose components may, and must, leave."""
        before = self.plan
        if after is before:
            return
        assert after.revision == before.revision + 1
        assert faults(after, self.away) == []
        now = {p.name: p for p in after.placements}
        for name, placement in now.items():
            if name in self.known:
                assert name in {p.name for p in before.placements}, f"{name} is used a second time"
                update = {"leaving": placement.leaving, "donor": placement.donor}
                assert self.known[name].model_copy(update=update) == placement, f"{name} was moved"
        assert {p.name for p in before.placements if not p.leaving} <= now.keys(), "somebody vanished without draining"
        assert not [p.name for p in staying(after) if p.host in left and p.name in self.known]
        self.known |= now
        self.plan = after

    def scale(self, shape: Shape) -> None:
        try:
            after = rearrange(self.plan, shape, away=self.away)
        except ArrangementError as error:
            nearest = fitting(error)
            if nearest is None:
                return
            shape = nearest
            after = rearrange(self.plan, shape, away=self.away)
        self.take(after)
        assert shape_of(self.plan) == self.plan.shape == str(shape)
        assert rearrange(self.plan, shape, away=self.away) is self.plan

    def settle(self) -> None:
        self.take(settle(self.plan))
        assert not [p for p in self.plan.placements if p.leaving or p.donor is not None]

    def lose(self, node: str) -> None:
        self.away |= {node}
        after = regroup(self.plan, self.away)
        assert [p for p in after.placements if p.host in self.away] == [
            p for p in self.plan.placements if p.host in self.away
        ]
        self.take(after)
        assert regroup(self.plan, self.away) is self.plan
        homes = {p.group: p.host for p in staying(self.plan, Role.LEARNER)}
        if set(homes.values()) <= self.away:
            return
        orphans = [p for p in staying(self.plan, Role.ACTOR) if homes[p.group] in self.away and p.host not in self.away]
        assert orphans == []

    def back(self) -> None:
        self.away = frozenset()
        self.scale(Shape.parse(self.plan.shape))

    def gone(self, node: str) -> None:
        self.away -= {node}
        wanted = Shape.parse(self.plan.shape)
        for shape in (wanted, None):
            try:
                after = rearrange(self.plan, shape or wanted, away=self.away, gone=frozenset({node}))
            except ArrangementError as error:
                wanted = fitting(error) or wanted
            else:
                self.take(after, left=frozenset({node}))
                assert shape_of(self.plan) == self.plan.shape
                return

    def leave(self, node: str) -> None:
        try:
            after = rearrange(self.plan, Shape.parse(self.plan.shape), away=self.away, leave=frozenset({node}))
        except ArrangementError:
            return
        self.take(after, left=frozenset({node}))
        self.settle()
        assert node not in {host.name for host in self.plan.hosts}
        self.away -= {node}

    def join(self, number: int) -> None:
        host = HostPlan(name=f"new{number}", cores=(0, 1))
        self.take(rearrange(self.plan, Shape.parse(self.plan.shape), hosts=(*self.plan.hosts, host), away=self.away))
        assert host in self.plan.hosts


@settings(max_examples=200, deadline=None)
@given(first_plans(), st.data())
def test_no_change_breaks_a_plan(plan: Plan, data: st.DataObject):
    life = Life(plan)
    for number in range(data.draw(st.integers(1, 10))):
        others = [host.name for host in life.plan.hosts[1:] if not host.leaving]
        match data.draw(st.sampled_from(OPERATIONS)):
            case "scale":
                life.scale(data.draw(SHAPES))
            case "settle":
                life.settle()
            case "back":
                life.back()
            case "join":
                life.join(number)
            case operation if others:
                getattr(life, {"away": "lose"}.get(operation, operation))(data.draw(st.sampled_from(others)))


@settings(max_examples=100, deadline=None)
@given(first_plans(), st.integers(1, 3), st.integers(0, 8))
def test_a_run_that_grows_and_shrinks_again_is_as_it_was(plan: Plan, learners: int, actors: int):
    before = plan.learners_and_actors
    larger = Shape(before.learners + learners, before.actors + learners * -(-before.actors // before.learners) + actors)
    if not can_hold(plan, larger) or before.actors % before.learners:
        return
    grown = settle(rearrange(plan, larger))
    back = settle(rearrange(grown, before))
    assert back.placements == plan.placements
