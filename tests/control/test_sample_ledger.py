"""The run's sample ledger over nodes: whatever is reported in whatever order, it adds up and never goes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.contract.messages import RingLedger
from runtime.contract.plan import HostPlan, Placement, Plan
from runtime.contract.states import Role
from runtime.contract.view import Samples
from runtime.control.ledger import Books, Ledger

HEAD, FAR, THIRD = "tj0", "tj1", "tj2"


@pytest.fixture
def spread_plan(make_plan: Any) -> Plan:
    """Groups at tj0 and tj1. Elsewhere than their groups: actor 1 (of group 1) at tj0, actor 2 (of group 0) at tj2."""
    return spread(make_plan(learners=2, actors=4))


def spread(plan: Plan) -> Plan:
    place = {"learner-0": HEAD, "buffer-0": HEAD, "learner-1": FAR, "buffer-1": FAR,
             "actor-0": HEAD, "actor-1": HEAD, "actor-2": THIRD, "actor-3": FAR}  # fmt: skip
    return plan.model_copy(
        update={
            "hosts": tuple(HostPlan(name=name, cores=(0, 1)) for name in (HEAD, FAR, THIRD)),
            "placements": tuple(p.model_copy(update={"host": place[p.name]}) for p in plan.placements),
        }
    )


def without(plan: Plan, *names: str) -> Plan:
    left = tuple(p for p in plan.placements if p.name not in names)
    return plan.model_copy(update={"placements": left, "revision": plan.revision + 1})


def counts(produced: int, consumed: int = 0, stale: int = 0, other: int = 0) -> RingLedger:
    return RingLedger(produced=produced, consumed=consumed, dropped_stale=stale, dropped_other=other)


def totals(ledger: Ledger, base: Samples | None = None) -> tuple[int, int, int, int, int]:
    samples, excess = ledger.samples(base or Samples())
    assert excess == 0
    parts = samples.consumed + samples.dropped_stale + samples.dropped_other + samples.in_flight
    assert samples.produced == parts
    return samples.produced, samples.consumed, samples.dropped_stale, samples.dropped_other, samples.in_flight


def test_an_actor_elsewhere_is_counted_once_whichever_end_reports_first(spread_plan: Plan) -> None:
    ledger = Ledger(spread_plan, on_policy=False)
    ledger.take(THIRD, {"fragments.actor-2": counts(900, 400)})
    assert totals(ledger) == (900, 0, 0, 0, 900), "released by the courier is not used"
    ledger.take(HEAD, {"fragments.actor-2": counts(600, 300, 100)})
    assert totals(ledger) == (900, 300, 100, 0, 500)
    ledger.take(HEAD, {"fragments.actor-2": counts(1000, 600, 100)})
    assert totals(ledger) == (1000, 600, 100, 0, 300), "the far end knows of more before the near end has said so"
    ledger.take(HEAD, {"fragments.actor-2": counts(10)})
    assert totals(ledger)[0] == 1000, "an older word changes nothing"


def test_on_policy_samples_are_consumed_when_their_batch_is(spread_plan: Plan) -> None:
    ledger = Ledger(spread_plan, on_policy=True)
    ledger.take(FAR, {"fragments.actor-1": counts(500, 400, 50), "batches.1": counts(400, 300, 20, 30)})
    ledger.take(FAR, {"batches.0": counts(999, 999), "priorities.1": counts(7, 7)})
    assert totals(ledger) == (500, 300, 70, 30, 100), "batches are counted where their group is"


def test_what_a_dropped_actor_left_counts_as_dropped_once_nothing_more_can_come(spread_plan: Plan) -> None:
    ledger = Ledger(spread_plan, on_policy=False)
    ledger.take(THIRD, {"fragments.actor-2": counts(900)})
    ledger.take(HEAD, {"fragments.actor-2": counts(600, 500)})
    after = without(spread_plan, "actor-2")
    ledger.revise(after)
    ledger.close({HEAD: after.revision, THIRD: spread_plan.revision})
    assert totals(ledger) == (900, 500, 0, 0, 400), "its node does not know of it yet"
    ledger.take(HEAD, {"fragments.actor-2": counts(700, 700)})
    ledger.close({HEAD: after.revision, THIRD: after.revision})
    assert totals(ledger) == (900, 700, 0, 200, 0)
    ledger.take(HEAD, {"fragments.actor-2": counts(5000, 5000)})
    assert totals(ledger) == (900, 700, 0, 200, 0), "a closed account stays closed"


def test_what_a_node_took_with_it_counts_as_dropped(spread_plan: Plan) -> None:
    ledger = Ledger(spread_plan, on_policy=False)
    ledger.take(THIRD, {"fragments.actor-2": counts(900)})
    ledger.take(HEAD, {"fragments.actor-2": counts(600, 500)})
    assert not ledger.drained("actor-2", {"actor-2"}), "what has arrived is still used"
    ledger.take(HEAD, {"fragments.actor-2": counts(600, 600)})
    assert ledger.drained("actor-2", {"actor-2"})
    assert not ledger.drained("actor-2"), "while its node is there more may come"
    after = without(spread_plan, "actor-2")
    ledger.revise(after)
    ledger.close({HEAD: after.revision}, {"actor-2"})
    assert totals(ledger) == (900, 600, 0, 300, 0)


def test_a_lost_home_keeps_its_accounts_open_until_it_is_known_to_be_gone(spread_plan: Plan) -> None:
    ledger = Ledger(spread_plan, on_policy=True)
    ledger.take(HEAD, {"fragments.actor-1": counts(800)})
    ledger.take(FAR, {"fragments.actor-1": counts(600, 500), "batches.1": counts(500, 400)})
    group = ("actor-1", "actor-3", "learner-1", "buffer-1")
    after = without(spread_plan, *group)
    ledger.revise(after)
    ledger.close({HEAD: after.revision, FAR: spread_plan.revision})
    assert totals(ledger) == (800, 400, 0, 0, 400), "it may have trained on since then"
    assert ledger.drained("actor-1", group)
    assert ledger.group_drained(1, group)
    ledger.close({HEAD: after.revision}, group)
    assert totals(ledger) == (800, 400, 0, 400, 0)


def test_a_group_is_drained_when_its_rings_and_its_batches_are_empty(spread_plan: Plan) -> None:
    ledger = Ledger(spread_plan, on_policy=True)
    ledger.take(HEAD, {"fragments.actor-1": counts(800)})
    ledger.take(FAR, {"fragments.actor-1": counts(600, 600), "batches.1": counts(600, 400)})
    assert (ledger.drained("actor-1"), ledger.group_drained(1)) == (False, False)
    ledger.take(FAR, {"fragments.actor-1": counts(800, 700, 100), "batches.1": counts(700, 690, 0, 10)})
    assert (ledger.drained("actor-1"), ledger.group_drained(1)) == (True, True)
    assert Ledger(spread_plan, on_policy=False).group_drained(1), "a replay memory is never used up"


def test_a_ledger_that_cannot_be_is_not_hidden(spread_plan: Plan) -> None:
    ledger = Ledger(spread_plan, on_policy=False)
    ledger.take(HEAD, {"fragments.actor-0": counts(5, 0, 9)})
    samples, excess = ledger.samples(Samples(produced=10, consumed=10))
    assert excess == 4
    assert samples.produced == samples.consumed + samples.dropped_stale + samples.in_flight == 19


# -- anything in any order


@dataclass
class Ring:
    produced: int = 0
    consumed: int = 0
    stale: int = 0

    @property
    def rest(self) -> int:
        return self.produced - self.consumed - self.stale

    def said(self) -> RingLedger:
        return counts(self.produced, self.consumed, self.stale)


@dataclass
class Machine:
    """One node: its rings, the plan it works by, and what it has reported, oldest first."""

    plan: Plan
    rings: dict[str, Ring] = field(default_factory=dict)
    sent: list[tuple[int, dict[str, RingLedger]]] = field(default_factory=list)
    heard: int = 0  # of those


class World:
    """Nodes that work and report, and a ledger that hears of it late, twice, and in any order."""

    def __init__(self, plan: Plan, random: Random, *, on_policy: bool) -> None:
        self.plan, self.random, self.on_policy = plan, random, on_policy
        self.machines = {host.name: Machine(plan) for host in plan.hosts}
        self.place = {p.name: p for p in plan.placements}
        self.homes = {p.group: p.host for p in plan.of_role(Role.LEARNER)}
        self.ledger = Ledger(plan, on_policy=on_policy)
        self.forsaken: set[str] = set()
        self.revisions: dict[str, int] = {}
        self.before = (0, 0, 0, 0, 0)

    def ring(self, node: str, name: str, component: str, keeper: str) -> Ring | None:
        """A ring of a node, if its plan still has the component and its memory, which `keeper` shares, is not gone."""
        machine = self.machines[node]
        if keeper in self.forsaken or component not in {p.name for p in machine.plan.placements}:
            return None
        return machine.rings.setdefault(name, Ring())

    def act(self) -> None:
        actor = self.random.choice([p for p in self.place.values() if p.role is Role.ACTOR])
        ring, home = f"fragments.{actor.name}", self.homes[actor.group]
        learner = f"learner-{actor.group}"
        near = self.ring(actor.host, ring, actor.name, actor.name)
        far = self.ring(home, ring, actor.name, learner)
        batches = self.ring(home, f"batches.{actor.group}", learner, learner)
        amount = self.random.randint(1, 9)
        match self.random.choice(["make", "make", "ship", "use", "use", "stale", "train"]):
            case "make" if near is not None:
                near.produced += amount
            case "ship" if near is not None and far is not None and near is not far:
                far.produced += min(amount, near.produced - far.produced)
                near.consumed, near.stale = far.consumed, far.stale
            case "use" if far is not None and batches is not None and far.rest:
                amount = min(amount, far.rest)
                batches.produced += amount
                far.consumed += amount
            case "stale" if far is not None and far.rest:
                far.stale += 1
            case "train" if batches is not None and batches.rest:
                batches.consumed += min(amount, batches.rest)

    def report(self, node: str) -> None:
        machine = self.machines[node]
        there = {p.name for p in machine.plan.placements}
        said = {
            name: ring.said()
            for name, ring in machine.rings.items()
            if name.partition(".")[2] in there or f"learner-{name.partition('.')[2]}" in there
        }
        machine.sent.append((machine.plan.revision, said))

    def hear(self, node: str) -> None:
        """Some of what was not heard yet, or now and then something old once more."""
        machine = self.machines[node]
        first, last = machine.heard, self.random.randint(machine.heard, len(machine.sent))
        if first == last and machine.heard:
            first = self.random.randrange(machine.heard)
            last = first + 1
        for revision, rings in machine.sent[first:last]:
            self.ledger.take(node, rings)
            self.revisions[node] = max(revision, self.revisions.get(node, 0))
            self.ledger.close(self.revisions, self.forsaken)
        machine.heard = max(machine.heard, last)

    def obey(self, node: str) -> None:
        """A node works by the newest plan; of what it drops it has said last how it stands."""
        self.report(node)
        self.machines[node].plan = self.plan

    def drop(self) -> None:
        """An actor, or a group with all its actors, leaves the plan: drained or not."""
        groups = self.plan.groups
        if self.random.random() < 0.3 and len(groups) > 1:
            group = self.random.choice(groups)
            names = [p.name for p in self.plan.placements if p.group == group]
        else:
            actors = self.plan.of_role(Role.ACTOR)
            names = [self.random.choice(actors).name] if actors else []
        self.plan = without(self.plan, *names)
        self.ledger.revise(self.plan)

    def renew(self, node: str) -> None:
        """All that the node ran is gone, at once; what its former agent still says is not heard."""
        gone = [p for p in self.place.values() if p.host == node]
        self.forsaken |= {p.name for p in gone}
        self.machines[node] = Machine(self.machines[node].plan)
        groups = {p.group for p in gone if p.role is Role.LEARNER}
        lost = [p.name for p in self.plan.placements if p.name in self.forsaken or p.group in groups]
        self.plan = without(self.plan, *lost)
        self.ledger.revise(self.plan)

    def restart_coordinator(self) -> None:
        books = Books.model_validate_json(self.ledger.books().model_dump_json())
        self.ledger = Ledger(self.plan, on_policy=self.on_policy, books=books)

    def check(self) -> None:
        now = totals(self.ledger)
        assert now[:4] >= self.before[:4]
        assert all(after >= before for after, before in zip(now[:4], self.before[:4], strict=True)), (self.before, now)
        self.before = now

    def turn(self) -> None:
        node = self.random.choice([HEAD, FAR, THIRD])
        chance = self.random.random()
        if chance < 0.55:
            self.act()
        elif chance < 0.75:
            self.report(node)
        elif chance < 0.93:
            self.hear(node)
        elif chance < 0.96:
            self.obey(node)
        elif chance < 0.975:
            self.drop()
        elif chance < 0.98 and node != HEAD:
            self.renew(node)
        else:
            self.restart_coordinator()
        self.check()

    def come_to_rest(self) -> None:
        """Everybody works by the newest plan, has said so, and was heard."""
        for node, machine in self.machines.items():
            self.obey(node)
            self.report(node)
            while machine.heard < len(machine.sent):
                self.hear(node)
                self.check()


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), on_policy=st.booleans(), turns=st.integers(50, 400))
def test_the_ledger_adds_up_and_never_goes_back_whatever_happens(
    make_plan: Any, seed: int, on_policy: bool, turns: int
) -> None:
    world = World(spread(make_plan(learners=2, actors=4)), Random(seed), on_policy=on_policy)
    for _ in range(turns):
        world.turn()
    world.come_to_rest()
    waiting = sum(_waiting(world, actor) for actor in world.plan.of_role(Role.ACTOR))
    if on_policy:
        waiting += sum(
            world.machines[world.homes[group]].rings.get(f"batches.{group}", Ring()).rest for group in world.plan.groups
        )
    assert world.before[4] == waiting, "in the end only what is in the rings of the living is in flight"


def _waiting(world: World, actor: Placement) -> int:
    """Samples of this actor that no buffer has taken."""
    near = world.machines[actor.host].rings.get(f"fragments.{actor.name}", Ring())
    far = world.machines[world.homes[actor.group]].rings.get(f"fragments.{actor.name}", Ring())
    return max(near.produced, far.produced) - far.consumed - far.stale
