"""The run's numbers over several nodes and plans: counted once, kept when who counted is gone, never going back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from runtime.contract.messages import ComponentReport, LinkReport, Report, RingLedger
from runtime.contract.plan import HostPlan, Plan
from runtime.contract.states import ComponentState, Role, RunState
from runtime.contract.view import Checkpoints, HostView, Progress, RunView
from runtime.control.counted import Base, Memory, Past
from runtime.control.fold import Fold
from runtime.control.links import Link, LinkState
from runtime.control.nodes import Heard, Node, Tick, step
from runtime.control.view_builder import Facts, build_view

HEAD, OTHER = "tj0", "tj1"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def plan(make_plan: Any) -> Plan:
    """L2A4: group 0 and actor-1 at the head, group 1 and actor-2 (of group 0) at the other node."""
    place = {"learner-1": OTHER, "buffer-1": OTHER, "actor-2": OTHER, "actor-3": OTHER}
    made = make_plan(learners=2, actors=4)
    assert isinstance(made, Plan)
    return made.model_copy(
        update={
            "hosts": (HostPlan(name=HEAD, cores=(0, 1)), HostPlan(name=OTHER, cores=(0, 1), wan=True)),
            "placements": tuple(p.model_copy(update={"host": place.get(p.name, HEAD)}) for p in made.placements),
        }
    )


def without(plan: Plan, *names: str) -> Plan:
    left = tuple(p for p in plan.placements if p.name not in names)
    return plan.model_copy(update={"placements": left, "revision": plan.revision + 1})


def report(plan: Plan, node: str, *, revision: int | None = None, counters: Any = None, **fields: Any) -> Report:
    """All components of a node, working, each with the same counters."""
    components = tuple(
        ComponentReport(name=p.name, role=p.role, pid=1, state=ComponentState.RUNNING, counters=counters or {})
        for p in plan.on(node)
    )
    courier = ComponentReport(name=f"courier.{OTHER if node == HEAD else HEAD}", role=Role.COURIER, pid=2,
                              state=ComponentState.RUNNING)  # fmt: skip
    return Report(
        node=node, sequence=1, components=(*components, courier),
        revision=plan.revision if revision is None else revision, **fields,
    )  # fmt: skip


def counts(produced: int, consumed: int = 0) -> RingLedger:
    return RingLedger(produced=produced, consumed=consumed)


def states(fold: Fold) -> dict[str, ComponentState]:
    return {standing.name: standing.state for standing in fold.standings(lambda _: None)}


def test_what_a_dropped_component_counted_stays(plan: Plan) -> None:
    fold = Fold(plan, Base(progress=Progress(env_steps=1000)))
    counters = {"env_steps": 100, "episodes": 5, "updates": 20, "samples_trained": 50}
    fold.take(report(plan, HEAD, counters=counters), 1.0)
    fold.take(report(plan, OTHER, counters=counters), 1.0)
    assert (fold.progress.env_steps, fold.progress.updates) == (1400, 40)
    fold.take(report(plan, HEAD, counters=counters), 1.0)  # rates begin when all have been heard
    after = without(plan, "learner-1", "buffer-1", "actor-3")
    fold.revise(after)
    last = {name: 2 * value for name, value in counters.items()}
    fold.take(report(plan, OTHER, counters=last), 2.0)
    assert (fold.progress.env_steps, fold.progress.updates) == (1600, 60), "its node has not dropped it yet"
    fold.take(report(after, OTHER, counters=last), 3.0)
    fold.take(report(after, HEAD, counters=last), 3.0)
    assert (fold.progress.env_steps, fold.progress.updates) == (1800, 80)
    assert set(fold.reports) == {p.name for p in after.placements}
    assert view_of(after, fold, 3.0).rates.samples_per_s == 25, "the rate of who stays does not fall as somebody leaves"


def test_a_coordinator_that_takes_over_has_forgotten_nothing(plan: Plan) -> None:
    before = Fold(plan, Base())
    counters = {"env_steps": 100, "updates": 20}
    rings = {"fragments.actor-2": RingLedger(produced=500)}
    before.take(report(plan, HEAD, counters=counters), 1.0)
    before.take(report(plan, OTHER, counters=counters, rings=rings), 1.0)
    after = without(plan, "learner-1", "buffer-1", "actor-3")
    before.revise(after)
    before.forsake(OTHER)
    memory = Memory.model_validate_json(before.memory().model_dump_json())
    fold = Fold(after, Base(), before.progress, memory)
    assert fold.samples() == before.samples()
    assert states(fold) == states(before)
    fold.take(report(after, HEAD, counters={"env_steps": 150, "updates": 30}), 2.0)
    assert fold.progress.env_steps == 2 * 150 + 2 * 100, "two at the head now, two that were at the other node"
    assert fold.progress.updates == 30 + 20


def test_what_was_done_while_no_coordinator_looked_is_no_rate(plan: Plan) -> None:
    before = Fold(plan, Base())
    for node in (HEAD, OTHER):
        before.take(report(plan, node, counters={"updates": 20}), 1.0)
    fold = Fold(plan, Base(), before.progress, before.memory())
    for node in (HEAD, OTHER):
        fold.take(report(plan, node, counters={"updates": 500}), 2.0)
    assert fold.progress.updates == 1000
    fold.take(report(plan, HEAD, counters={"updates": 500}), 3.0)
    assert view_of(plan, fold, 3.0).rates.updates_per_s == 0


def test_updates_of_learners_that_left_in_an_earlier_attempt_are_counted_on(plan: Plan) -> None:
    base = Base(progress=Progress(updates=900), past=Past(updates=400))
    fold = Fold(plan, base)
    fold.take(report(plan, HEAD, counters={"updates": 260}), 1.0)
    fold.take(report(plan, OTHER, counters={"updates": 250}), 1.0)
    assert fold.progress.updates == 910


def test_what_is_on_a_lost_node_is_away_and_goes_on_counting_when_it_is_back(plan: Plan) -> None:
    fold = Fold(plan, Base())
    fold.take(report(plan, HEAD, counters={"env_steps": 100}), 1.0)
    fold.take(report(plan, OTHER, counters={"env_steps": 100}), 1.0)
    fold.lose(OTHER, "no word for 2.6 s")
    assert {name for name, state in states(fold).items() if state is ComponentState.AWAY} == {
        "learner-1", "buffer-1", "actor-2", "actor-3"
    }  # fmt: skip
    assert not fold.all_gone()
    fold.take(report(plan, HEAD, counters={"env_steps": 150}), 2.0)
    assert fold.progress.env_steps == 500
    fold.take(report(plan, OTHER, counters={"env_steps": 160}), 3.0)
    assert ComponentState.AWAY not in states(fold).values()
    assert fold.progress.env_steps == 620


def test_the_next_life_of_a_node_is_not_taken_for_the_one_before(plan: Plan) -> None:
    fold = Fold(plan, Base())
    fold.take(report(plan, HEAD, counters={"env_steps": 100}), 1.0)
    fold.take(report(plan, OTHER, counters={"env_steps": 100}), 1.0)
    fold.forsake(OTHER)
    fold.take(report(plan, OTHER, counters={"env_steps": 3}), 2.0)
    assert states(fold)["actor-2"] is ComponentState.EXITED, "whatever the new agent says of what it never ran"
    assert fold.progress.env_steps == 400
    fold.revise(without(plan, "learner-1", "buffer-1", "actor-2", "actor-3"))
    assert fold.progress.env_steps == 400
    assert fold.past.env_steps == 200


def test_what_was_lost_with_a_node_is_written_off_once_the_others_have_dropped_it_too(plan: Plan) -> None:
    fold = Fold(plan, Base())
    fold.take(report(plan, OTHER, rings={"fragments.actor-2": RingLedger(produced=500)}), 1.0)
    rings = {"fragments.actor-2": counts(300, 300), "batches.0": counts(300, 300), "fragments.actor-1": counts(40)}
    fold.take(report(plan, HEAD, rings=rings), 1.0)
    fold.forsake(OTHER)
    after = without(plan, "learner-1", "buffer-1", "actor-1", "actor-2", "actor-3")
    fold.revise(after)
    assert fold.samples()[0].in_flight > 0, "the head may not have said all of it yet"
    memory = Memory.model_validate_json(fold.memory().model_dump_json())
    for heir in (fold, Fold(after, Base(), fold.progress, memory)):
        heir.take(report(after, HEAD), 2.0)
        samples = heir.samples()[0]
        assert (samples.produced, samples.dropped_other, samples.in_flight) == (540, 240, 0)
        assert list(heir.forsaken) == []


def test_an_end_is_complete_without_nodes_that_cannot_be_asked(plan: Plan) -> None:
    fold = Fold(plan, Base())
    fold.take(report(plan, HEAD), 1.0)
    fold.take(report(plan, OTHER), 1.0)
    left = report(plan, HEAD)
    gone = tuple(c.model_copy(update={"state": ComponentState.EXITED, "pid": None}) for c in left.components)
    fold.take(left.model_copy(update={"components": gone}), 2.0)
    assert not fold.all_gone()
    assert fold.all_gone(absent=[OTHER])


# -- the view


def view_of(plan: Plan, fold: Fold, now: float, **known: Any) -> RunView:
    facts = Facts(
        run_id="r", name="dull", attempt=1, state=RunState.RUNNING, reason="dull", started_at=NOON, updated_at=NOON,
        elapsed_s=now, checkpoints=Checkpoints(), events=(), now=now, **known,
    )  # fmt: skip
    return build_view(plan, fold, facts)


def test_hosts_are_shown_as_the_coordinator_sees_them(plan: Plan) -> None:
    fold = Fold(plan, Base())
    nodes = {name: Node(name=name, limit_s=2.5) for name in (HEAD, OTHER)}
    assert [host.state for host in view_of(plan, fold, 0.0, nodes=nodes).hosts] == ["waiting", "waiting"]
    for name in nodes:
        fold.take(report(plan, name), 1.0)
        nodes[name], _ = step(nodes[name], Heard(instance="a", sent_at=103.5, wall=100.0), now=1.0)
    head, other = view_of(plan, fold, 2.0, nodes=nodes).hosts
    assert (head.head, head.clock_offset_s, other.clock_offset_s) == (True, 0.0, 3.5)
    assert (other.state, other.heartbeat_age_s, other.cores) == ("connected", 1.0, (0, 1))
    for name in nodes:
        for now in (4.0, 4.5):
            nodes[name], _ = step(nodes[name], Tick(), now=now)
    fold.lose(OTHER, "silent")
    view = view_of(plan, fold, 5.0, nodes=nodes)
    head, other = view.hosts
    assert (other.state, "health.node" in other.reason) == ("lost", True)
    assert (head.state, head.reason) == ("connected", "its agent has not reported for 4.0 s")
    assert view.shape.present == "L1A2", "what is away is not present"
    assert HostView.model_validate_json(other.model_dump_json()) == other


def test_links_are_shown_once_a_direction_by_the_end_that_sends(plan: Plan) -> None:
    fold = Fold(plan, Base())
    end = LinkReport(peer=OTHER, state="up", transport="tcp", why="no RDMA device", sent_per_s=2e6, sent=1000,
                     sent_raw=5000, joins=2)  # fmt: skip
    fold.take(report(plan, HEAD, links=(end,)), 1.0)
    fold.take(report(plan, OTHER, links=(LinkReport(peer=HEAD, state="up", transport="tcp"),)), 1.0)
    links = {(HEAD, OTHER): Link(accepts=HEAD, connects=OTHER, state=LinkState.UP)}
    there, back = view_of(plan, fold, 1.0, links=links).links
    assert (there.source, there.target, there.mb_per_s, there.saved_bytes, there.joins) == (HEAD, OTHER, 2.0, 4000, 2)
    assert (there.state, there.transport, there.why, there.wan) == ("up", "tcp", "no RDMA device", True)
    assert (back.source, back.mb_per_s) == (OTHER, 0.0)
    links = {(HEAD, OTHER): Link(accepts=HEAD, connects=OTHER, state=LinkState.OPENING, reason="dull")}
    there, _ = view_of(plan, fold, 1.0, links=links).links
    assert (there.state, there.reason, there.mb_per_s) == ("joining", "dull", 0.0), "a rate of before is no rate"


def test_couriers_are_components_of_the_node_they_serve(plan: Plan) -> None:
    fold = Fold(plan, Base())
    fold.take(report(plan, HEAD), 1.0)
    fold.take(report(plan, OTHER), 1.0)
    couriers = [(c.name, c.host) for c in view_of(plan, fold, 1.0).components if c.role is Role.COURIER]
    assert couriers == [(f"courier.{OTHER}", HEAD), (f"courier.{HEAD}", OTHER)]
    fold.lose(OTHER, "silent")
    assert [c.host for c in view_of(plan, fold, 1.0).components if c.role is Role.COURIER] == [HEAD]
