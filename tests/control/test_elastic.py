"""When a run proposes another shape for itself, and when it keeps its peace."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.contract.arrangement import rearrange, settle
from runtime.contract.job import ElasticConfig
from runtime.contract.plan import Plan
from runtime.contract.shape import Shape
from runtime.contract.states import ComponentState, Role, RunState
from runtime.contract.view import Bottleneck, ComponentView, Freshness, RunView, ShapeView
from runtime.control.elastic import (
    REVERSE_COOL_DOWNS,
    SAY_AGAIN_S,
    Memory,
    Proposal,
    Rule,
    Signals,
    look,
    signals_of,
)  # fmt: skip
from support.arranged import nodes, plan_over

HOLDS_S, COOL_DOWN_S = ElasticConfig().patience, ElasticConfig().cool_down
REVERSE_S = REVERSE_COOL_DOWNS * COOL_DOWN_S
STARVING = Signals(staleness=0.0, learners_busy=0.2, actors_busy=0.99, limit="actors")
STALE = Signals(staleness=0.5, learners_busy=1.0, actors_busy=1.0, limit="learner")
CROWDED = Signals(staleness=0.0, learners_busy=0.99, actors_busy=0.2, limit="learner")
CONTENT = Signals(staleness=0.15, learners_busy=0.8, actors_busy=0.95, limit="actors")


@dataclass
class Watched:
    """A run whose proposals are carried out (`auto`) or only listened to."""

    plan: Plan
    auto: bool = False
    now: float = 100.0
    memory: Memory = field(default_factory=Memory)
    made: list[tuple[float, Proposal]] = field(default_factory=list)

    def see(self, signals: Signals, seconds: float) -> list[Proposal]:
        """The same signals for so long, four looks a second; what was proposed meanwhile."""
        before, end = len(self.made), self.now + seconds
        while self.now < end:
            self.now += 0.25
            self.memory, proposal = look(self.memory, signals, self.plan, now=self.now)
            if proposal is not None:
                self.made.append((self.now, proposal))
                if self.auto:
                    self.plan = settle(rearrange(self.plan, proposal.shape))
        return [proposal for _, proposal in self.made[before:]]


def watched(shape: str = "L2A4", cores: int = 16, *, auto: bool = False, **elastic: str | float) -> Watched:
    return Watched(plan_over(nodes(cores), shape, elastic={"min": "L1A2", "max": "L4A16"} | elastic), auto=auto)


def test_stale_samples_ask_for_a_group_more():
    run = watched()
    (proposal,) = run.see(STALE, COOL_DOWN_S + HOLDS_S)
    assert (proposal.rule, proposal.shape) == (Rule.MORE_LEARNERS, Shape(3, 4))
    assert proposal.advice("pong-1") == "50% of the samples are stale when used: tianjictl scale pong-1 L3A4"


def test_learners_that_wait_for_actors_ask_for_half_as_many_more():
    (proposal,) = watched().see(STARVING, COOL_DOWN_S + HOLDS_S)
    assert (proposal.rule, proposal.shape) == (Rule.MORE_ACTORS, Shape(2, 6))


def test_actors_that_wait_for_learners_ask_for_fewer():
    (proposal,) = watched("L2A8").see(CROWDED, COOL_DOWN_S + HOLDS_S)
    assert (proposal.rule, proposal.shape) == (Rule.FEWER_ACTORS, Shape(2, 6))


def test_learners_with_too_little_to_do_ask_for_one_fewer_where_no_actor_fits_any_more():
    (proposal,) = watched("L2A4", max="L2A4").see(STARVING, COOL_DOWN_S + HOLDS_S)
    assert (proposal.rule, proposal.shape) == (Rule.FEWER_LEARNERS, Shape(1, 4))


def test_a_run_that_is_well_is_left_alone():
    assert watched().see(CONTENT, 300) == []


def test_a_rule_must_hold_on_end():
    run = watched()
    run.see(CONTENT, COOL_DOWN_S)
    for _ in range(20):
        assert run.see(STARVING, HOLDS_S - 2) == []
        assert run.see(CONTENT, 2) == []


def test_after_a_change_the_numbers_are_given_time():
    run = watched()
    run.see(STARVING, COOL_DOWN_S + HOLDS_S)
    run.plan = settle(rearrange(run.plan, Shape(2, 5)))
    changed = run.now
    run.see(STARVING, 100)
    assert run.made[1][0] - changed >= COOL_DOWN_S


def test_the_reverse_of_what_was_done_last_waits_longer():
    run = watched(auto=True)
    run.see(STARVING, COOL_DOWN_S + HOLDS_S)
    grown = run.made[-1][0]
    run.see(CROWDED, 300)
    shrunk, proposal = run.made[1]
    assert proposal.rule is Rule.FEWER_ACTORS
    assert shrunk - grown >= REVERSE_S


def test_a_job_says_how_patient_its_run_is():
    run = watched(auto=True, patience=2.0, cool_down=4.0)
    run.see(STARVING, 12.0)
    first, second = (at for at, _ in run.made)
    assert first - 100.0 == pytest.approx(4.0, abs=1.5)
    assert second - first == pytest.approx(4.0, abs=1.5)
    run.see(CROWDED, 20.0)
    reversed_at, proposal = run.made[2]
    assert proposal.rule is Rule.FEWER_ACTORS
    assert reversed_at - second == pytest.approx(REVERSE_COOL_DOWNS * 4.0, abs=1.5)


def test_advice_that_nobody_takes_is_not_repeated_at_once():
    run = watched()
    assert len(run.see(STARVING, SAY_AGAIN_S)) == 1
    assert len(run.see(STARVING, COOL_DOWN_S + HOLDS_S)) == 1


def test_growing_ends_at_the_upper_bound_and_shrinking_at_the_lower():
    run = watched("L2A4", cores=32, auto=True, min="L1A3", max="L3A7")
    run.see(STARVING, 300)
    assert run.plan.shape in ("L2A7", "L1A7")
    run.see(CROWDED, 900)
    assert run.plan.learners_and_actors.actors == 3


def test_without_bounds_a_run_grows_into_free_cores_only_and_never_shrinks():
    plan = plan_over(nodes(5), "L1A3", oversubscribe=True)
    run = Watched(plan, auto=True)
    run.see(STARVING, 300)
    assert run.plan.shape == "L1A4"
    run.see(CROWDED, 300)
    assert run.plan.shape == "L1A4"


@pytest.mark.parametrize("signals", [STARVING, STALE, CROWDED])
def test_nothing_is_proposed_while_a_change_is_under_way_or_a_node_is_away(signals):
    run = watched()
    run.plan = rearrange(run.plan, Shape(3, 5))
    assert run.see(signals, 100) == []
    memory = Memory()
    for second in range(100):
        memory, proposal = look(memory, signals, settle(run.plan), now=float(second), away=frozenset({"tj1"}))
        assert proposal is None


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([STARVING, STALE, CROWDED, CONTENT]), st.integers(1, 60)), max_size=30))
def test_whatever_is_measured_a_run_does_not_flap(seen):
    run = watched(auto=True)
    for signals, seconds in seen:
        run.see(signals, seconds)
    opposite = {
        frozenset({Rule.MORE_ACTORS, Rule.FEWER_ACTORS}),
        frozenset({Rule.MORE_LEARNERS, Rule.FEWER_LEARNERS}),
    }
    for (earlier, first), (later, second) in zip(run.made, run.made[1:], strict=False):
        assert later - earlier >= COOL_DOWN_S
        if frozenset({first.rule, second.rule}) in opposite:
            assert later - earlier >= REVERSE_S


def test_signals_are_means_over_those_who_work():
    def component(role: Role, index: int, busy: float, state: ComponentState = ComponentState.RUNNING) -> ComponentView:
        return ComponentView(name=f"{role}-{index}", role=role, host="tj1", state=state, gauges={"busy_share": busy})

    view = RunView(
        run_id="r",
        name="r",
        state=RunState.RUNNING,
        reason="-",
        shape=ShapeView(wanted="L1A3", present="L1A2"),
        updated_at=datetime.now(UTC),
        freshness=Freshness(staleness_ratio=0.25),
        bottleneck=Bottleneck(side="actors"),
        components=(
            component(Role.LEARNER, 0, 0.4),
            component(Role.ACTOR, 0, 0.5),
            component(Role.ACTOR, 1, 1.0),
            component(Role.ACTOR, 2, 0.0, ComponentState.AWAY),
        ),
    )
    assert signals_of(view) == Signals(0.25, 0.4, 0.75, "actors")
