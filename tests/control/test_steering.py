"""Nodes, links and plans of a run as they change, by a clock that the test sets; nothing here is a process."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from runtime.contract.job import ElasticConfig
from runtime.contract.messages import Assign, ComponentReport, CoordinatorMessage, Report, Shutdown
from runtime.contract.operator import ScaleRequest
from runtime.contract.plan import HostPlan, Plan
from runtime.contract.states import ComponentState, Role, RunState
from runtime.contract.view import Checkpoints, Freshness, RunView
from runtime.control.counted import Base
from runtime.control.event_log import EventLog
from runtime.control.fold import Fold
from runtime.control.nodes import Heard
from runtime.control.run_state import NodesJudged, NoLearnerLeft, Run, RunEvent
from runtime.control.steering import Steering
from runtime.control.view_builder import Facts, build_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.paths import RunPaths

HEAD, SECOND, THIRD = "tj0", "tj1", "tj2"
REGROUP_AFTER_S = ElasticConfig().regroup_after
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TURN_S = 0.25


class Stage:
    """Agents of `present` nodes report every turn what the plan wants of them, as far as they were told it."""

    def __init__(self, paths: RunPaths, plan: Plan) -> None:
        self.now = 0.0
        self.run = Run(state=RunState.RUNNING)
        self.events = EventLog(paths.events, lambda: NOON)
        self.fold = Fold(plan, Base())
        self.sent: list[tuple[str, CoordinatorMessage]] = []
        self.plans = {plan.head: plan}
        self.instances = {host.name: "a" for host in plan.hosts}
        self.present = {host.name for host in plan.hosts}
        self.found: list[RunEvent] = []
        self.freshness = Freshness()
        self.steering = Steering(
            paths, plan, self.fold, self.events, attempt=1, kept=(), send=self.send, revised=lambda _: None, now=0.0
        )

    def send(self, node: str, message: CoordinatorMessage) -> bool:
        self.sent.append((node, message))
        if isinstance(message, Shutdown):
            self.present.discard(node)
        if isinstance(message, Assign) and node in self.present:
            self.plans[node] = message.plan
        return node in self.present

    def turn(self) -> None:
        self.now += TURN_S
        for node in sorted(self.present):
            self.report(node)
        self.found += self.steering.look(self.run, self.view, self.now)
        for event in self.found:
            if isinstance(event, NodesJudged):
                troubles = {"nodes": event.trouble} if event.trouble else {}
                self.run = self.run.model_copy(update={"troubles": troubles, "paused": event.paused})

    def report(self, node: str) -> None:
        plan = self.plans.get(node)
        revision = plan.revision if plan is not None else 0
        heard = Heard(instance=self.instances.get(node, "a"), revision=revision)
        self.found += self.steering.hear(node, heard, self.run, self.now)
        components = tuple(
            ComponentReport(
                name=p.name, role=p.role, gauges={"busy_share": 0.7},
                state=ComponentState.EXITED if p.leaving else ComponentState.RUNNING,
            )
            for p in (plan.on(node) if plan is not None else ())
        )  # fmt: skip
        self.fold.take(Report(node=node, sequence=1, components=components, revision=revision), self.now)

    def turns(self, seconds: float) -> None:
        for _ in range(int(seconds / TURN_S)):
            self.turn()

    def view(self) -> RunView:
        facts = Facts(
            run_id="r", name="dull", attempt=1, state=self.run.state, reason="", started_at=NOON, updated_at=NOON,
            elapsed_s=self.now, checkpoints=Checkpoints(), events=(), now=self.now,
        )  # fmt: skip
        return build_view(self.plan, self.fold, facts).model_copy(update={"freshness": self.freshness})

    @property
    def plan(self) -> Plan:
        return self.steering.plan

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events.newest]


@pytest.fixture
def set_up(make_plan: Any, run_folder: RunPaths) -> Callable[..., Stage]:
    """L2A4: group 0 at tj0, group 1 at tj1, but for actor-3, which is at tj2."""

    def build(**job: Any) -> Stage:
        made: Plan = make_plan(learners=2, actors=4, algorithm="dqn", **job)
        place = {"learner-1": SECOND, "buffer-1": SECOND, "actor-1": SECOND, "actor-3": THIRD}
        placements = tuple(
            p.model_copy(update={"host": place.get(p.name, HEAD), "core_share": 1.0, "cores": (number % 4,)})
            for number, p in enumerate(made.placements)
        )
        hosts = tuple(HostPlan(name=name, cores=(0, 1, 2, 3)) for name in (HEAD, SECOND, THIRD))
        stage = Stage(run_folder, made.model_copy(update={"hosts": hosts, "placements": placements}))
        stage.turns(1.0)
        assert stage.plans == dict.fromkeys((HEAD, SECOND, THIRD), stage.plan)
        return stage

    return build


def actors_of(plan: Plan, group: int) -> list[str]:
    return [p.name for p in plan.group_of(group, Role.ACTOR) if not p.leaving]


def test_a_short_cut_costs_no_component_and_a_long_one_moves_who_would_stand_idle(
    set_up: Callable[..., Stage],
) -> None:
    stage = set_up()
    stage.present.discard(SECOND)
    stage.turns(REGROUP_AFTER_S - 1.0)
    assert stage.plan.revision == 1
    assert [type(event) for event in stage.found] == [NodesJudged]
    stage.present.add(SECOND)
    stage.turns(1.0)
    assert (stage.plan.revision, stage.run.troubles) == (1, {})

    stage.present.discard(SECOND)
    stage.turns(REGROUP_AFTER_S + 5.0)
    assert "actor-3" not in actors_of(stage.plan, 1), "it stood idle at tj2, without its buffer"
    assert len(actors_of(stage.plan, 0)) == 3
    stage.present.add(SECOND)
    stage.turns(3.0)
    assert (len(actors_of(stage.plan, 0)), len(actors_of(stage.plan, 1))) == (2, 2), "evened out again"
    assert {plan.revision for plan in stage.plans.values()} == {stage.plan.revision}


@pytest.mark.parametrize(
    ("elastic", "what"),
    [
        ({}, "training goes on with L1A2; its 1 actor elsewhere joins another group in 12 s unless it is back"),
        ({"regroup_after": "1m"}, "joins another group in 60 s unless it is back"),
        ({"node_loss": "wait"}, "paused until tj1 is back (elastic.node_loss: wait)"),
        ({"min": "L2A3"}, "paused until tj1 is back: L1A2 is below elastic.min L2A3"),
    ],
)
def test_the_look_that_finds_a_node_lost_says_what_the_run_does_about_it(
    set_up: Callable[..., Stage], elastic: dict[str, str], what: str
) -> None:
    stage = set_up(elastic=elastic)
    stage.present.discard(SECOND)
    while "node.lost" not in stage.kinds():
        stage.turn()
    trouble = stage.run.troubles["nodes"]
    assert trouble.startswith("node tj1 is lost (")
    assert trouble.endswith(what)
    stage.turns(5.0)
    assert stage.run.troubles["nodes"] == trouble, "the same words for as long as it holds"


def test_a_job_says_how_long_actors_wait_for_a_lost_learner(set_up: Callable[..., Stage]) -> None:
    stage = set_up(elastic={"regroup_after": "4s"})
    stage.present.discard(SECOND)
    while "node.lost" not in stage.kinds():
        stage.turn()
    stage.turns(3.5)
    assert stage.plan.revision == 1
    stage.turns(1.0)
    assert len(actors_of(stage.plan, 0)) == 3
    assert "elsewhere" not in stage.run.troubles["nodes"], "it is done"


def test_a_change_is_settled_when_everybody_who_was_to_leave_has_left(set_up: Callable[..., Stage]) -> None:
    stage = set_up()
    assert stage.steering.answer(ScaleRequest(shape="L1A2"), stage.run, stage.now).ok
    assert stage.plan.revision == 2
    stage.turns(2.0)
    assert stage.plan.revision == 3
    assert [p.name for p in stage.plan.placements if p.leaving] == []
    assert stage.plan.shape == "L1A2"
    assert stage.kinds()[-3:] == ["scale.requested", "plan.revised", "plan.revised"]


def test_a_node_that_is_taken_out_is_dismissed_and_one_that_is_lost_then_is_given_up(
    set_up: Callable[..., Stage],
) -> None:
    stage = set_up()
    assert stage.steering.answer(ScaleRequest(remove=(THIRD,)), stage.run, stage.now).ok
    stage.turns(2.0)
    assert [node for node, message in stage.sent if isinstance(message, Shutdown)] == [THIRD]
    assert not stage.steering.membership.knows(THIRD)
    assert stage.steering.has_left(THIRD)
    assert stage.steering.answer(ScaleRequest(shape="L1A2", remove=(SECOND,)), stage.run, stage.now).ok
    stage.present.discard(SECOND)
    stage.turns(25.0)
    assert [host.name for host in stage.plan.hosts] == [HEAD]
    assert not stage.steering.membership.knows(SECOND)
    assert stage.run.troubles == {}, "nobody waits for a node that was to leave"


def test_the_last_learners_end_is_told_at_once(set_up: Callable[..., Stage]) -> None:
    stage = set_up()
    assert stage.steering.answer(ScaleRequest(shape="L1A2", remove=(THIRD,)), stage.run, stage.now).ok
    stage.turns(2.0)
    moved = tuple(p.model_copy(update={"host": SECOND}) for p in stage.plan.placements)
    swapped = stage.plan.model_copy(update={"placements": moved, "revision": stage.plan.revision + 1})
    assert stage.steering.revise(swapped, "the test wants it", None, stage.now)
    stage.turns(1.0)
    stage.found.clear()
    stage.instances[SECOND] = "b"
    stage.plans.pop(SECOND)
    stage.report(SECOND)
    assert [type(event) for event in stage.found] == [NoLearnerLeft]
    assert "tianjictl resume" in stage.found[0].reason  # type: ignore[attr-defined]


@pytest.mark.parametrize(("mode", "kind"), [("advise", "elastic.advice"), ("auto", "elastic.applied")])
def test_a_run_that_measures_that_it_should_grow_says_so_or_does_so(
    set_up: Callable[..., Stage], mode: str, kind: str
) -> None:
    stage = set_up(elastic={"mode": mode, "max": "L3A6"})
    stage.freshness = Freshness(staleness_ratio=0.5)
    stage.turns(50.0)
    told = [event for event in stage.events.newest if event.kind == kind]
    assert len(told) == 1, "not every second"
    assert "50% of the samples are stale" in told[0].message
    if mode == "auto":
        assert stage.plan.learners_and_actors.learners == 3
        revised = [event for event in stage.events.newest if event.kind == "plan.revised"]
        assert revised[0].cause == told[0].id
    else:
        assert stage.plan.revision == 1
        assert "tianjictl scale" in told[0].message


def test_a_run_that_ends_changes_nothing_more(set_up: Callable[..., Stage]) -> None:
    stage = set_up()
    stage.run = Run(state=RunState.STOPPING, outcome=RunState.STOPPED)
    stage.found.clear()
    stage.sent.clear()
    stage.instances[THIRD] = "b"
    stage.present.discard(SECOND)
    stage.turns(REGROUP_AFTER_S + 5.0)
    assert (stage.plan.revision, stage.found) == (1, [])
