"""What another shape is predicted to bring, and the proposals that follow from it."""

from __future__ import annotations

import pytest

from runtime.contract.plan import Plan
from runtime.contract.rates import HostRates
from runtime.contract.shape import Shape
from runtime.control.elastic import Memory, Proposal, Rule, Signals, look
from runtime.control.gain import better_shape, predicted_gain
from support.arranged import nodes, plan_over
from support.costs import host_rates

QUIET = Signals(staleness=0.15, learners_busy=0.8, actors_busy=0.95, limit="actors")
STARVING = Signals(staleness=0.15, learners_busy=0.2, actors_busy=0.99, limit="actors")


def run(shape: str, cores: int = 8, rates: HostRates | None = None, **elastic: str) -> Plan:
    plan = plan_over(nodes(cores), shape, elastic=elastic)
    return plan.model_copy(update={"rates": {"tj1": rates or host_rates()}})


def proposals(plan: Plan, signals: Signals, costs: dict[str, HostRates], seconds: float = 120.0) -> list[Proposal]:
    memory, found = Memory(), []
    for tick in range(int(seconds)):
        memory, proposal = look(memory, signals, plan, now=100.0 + tick, costs=costs)
        if proposal is not None:
            found.append(proposal)
    return found


def test_twice_the_actors_bring_twice_the_samples_until_the_learner_is_the_limit():
    assert predicted_gain(run("L1A1"), Shape(1, 2), {}) == pytest.approx(1.0, abs=0.01)
    assert predicted_gain(run("L1A3"), Shape(1, 5), {}) == pytest.approx(0.0, abs=0.01)


def test_what_was_measured_since_counts_more_than_what_was_planned_with():
    slower = {"tj1": host_rates(actor=30.0)}
    assert predicted_gain(run("L1A3"), Shape(1, 5), slower) == pytest.approx(2 / 3, abs=0.01)


def test_a_shape_that_does_not_fit_has_no_gain_and_neither_has_one_of_unknown_costs():
    assert predicted_gain(run("L1A3", cores=4), Shape(1, 5), {}) is None
    assert predicted_gain(plan_over(nodes(8), "L1A3"), Shape(1, 5), {}) is None


def test_the_best_neighbour_is_found_and_the_smaller_one_of_equals():
    better = better_shape(run("L1A4", cores=9), {})
    assert better is not None
    assert better.shape == Shape(2, 6), "two learners take what six actors make, and seven would bring no more"
    assert better.gain == pytest.approx(1.0, abs=0.01)


def test_a_balanced_run_has_no_better_neighbour():
    assert better_shape(run("L2A6"), {}) is None


def test_a_shape_that_no_rule_thinks_of_is_proposed_with_its_gain():
    plan = run("L1A4", cores=9, min="L1A1", max="L4A16")
    (proposal,) = proposals(plan, QUIET, {"tj1": host_rates()})
    assert (proposal.rule, proposal.shape) == (Rule.BETTER_SHAPE, Shape(2, 6))
    assert "predicted: +100% samples/s" in proposal.advice("pong-1")
    assert proposal.view("pong-1").command == "tianjictl scale pong-1 L2A6"


def test_more_actors_are_not_proposed_where_they_would_bring_nothing():
    """The rule speaks, as the learner waits; but by the costs it is the buffer that all wait for."""
    plan = run("L1A2", min="L1A1", max="L1A8")
    assert proposals(plan, STARVING, {"tj1": host_rates(receive_s=1 / 150)}) == []
    (proposal,) = proposals(plan, STARVING, {"tj1": host_rates()})
    assert proposal.gain == pytest.approx(0.5, abs=0.01)


def test_a_smaller_shape_is_proposed_only_within_the_jobs_own_bounds():
    """Four learners wait for one actor each: with fewer learners there are cores for more actors."""
    costs = {"tj1": host_rates(learner=1000.0)}
    assert proposals(run("L4A4", cores=8, max="L8A8"), QUIET, costs) == []
    (proposal,) = proposals(run("L4A4", cores=8, min="L1A1", max="L8A8"), QUIET, costs)
    assert proposal.shape == Shape(3, 5)
