"""What a placement should reach: each limit in turn, in numbers that can be checked by hand."""

from __future__ import annotations

import pytest

from runtime.contract.forecast import Charges, Held, Side, forecast
from runtime.contract.plan import Plan
from runtime.contract.predicting import predicted
from support.arranged import nodes, plan_over
from support.costs import host_rates

NOTHING_LIGHT = Charges.none()


def reached(plan: Plan, **rates: float) -> object:
    found = forecast(plan, {host.name: host_rates(**rates) for host in plan.hosts}, NOTHING_LIGHT)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_few_actors_are_the_limit():
    found = reached(plan_over(nodes(8), "L1A2"))
    assert (found.env_steps_per_s, found.side) == (pytest.approx(200.0), Side.ACTORS)
    assert found.groups[0].learner_busy == pytest.approx(2 / 3)


def test_many_actors_are_held_back_by_their_learner():
    found = reached(plan_over(nodes(8), "L1A6"))
    assert (found.env_steps_per_s, found.side) == (pytest.approx(300.0), Side.LEARNER)
    assert found.groups[0].actors_busy == pytest.approx(0.5)


def test_each_group_has_its_own_balance():
    """Five actors in two groups: three are more than their learner takes, two are fewer."""
    found = reached(plan_over(nodes(8), "L2A5"), learner=250.0)
    assert [group.env_steps_per_s for group in found.groups] == pytest.approx([250.0, 200.0])


def test_a_buffer_that_takes_its_time_is_the_receiver():
    found = reached(plan_over(nodes(8), "L1A4"), receive_s=1 / 150)
    assert (found.env_steps_per_s, found.side) == (pytest.approx(150.0), Side.RECEIVER)


def test_actors_that_share_cores_are_held_back_by_the_time_of_these():
    """Learner on one core, four actors on the other: together no more than one."""
    found = reached(plan_over(nodes(2), "L1A4", oversubscribe=True))
    assert (found.env_steps_per_s, found.side) == (pytest.approx(100.0), Side.CORES)


def test_actors_that_wait_for_their_simulator_leave_their_core_to_others():
    found = reached(plan_over(nodes(2), "L1A4", oversubscribe=True), actor_cpu_share=0.1, learner=1000.0)
    assert (found.env_steps_per_s, found.side) == (pytest.approx(400.0), Side.ACTORS)


def test_a_learner_that_shares_its_core_costs_time_there_too():
    """One core for all: a step takes 1/100 s, its sample 1/300 s."""
    plan = plan_over(nodes(1), "L1A1", oversubscribe=True)
    assert reached(plan).env_steps_per_s == pytest.approx(75.0)


def test_what_is_light_takes_its_part_of_the_time():
    plan = plan_over(nodes(2), "L1A4", oversubscribe=True)
    found = forecast(plan, {"tj1": host_rates()}, Charges(node=0.2, coordinator=0.0))
    assert found is not None
    assert found.env_steps_per_s == pytest.approx(80.0)


def test_the_head_pays_for_every_node_that_reports_to_it():
    charges = Charges(node=0.1, coordinator=0.2, report=0.01, link=0.02)
    assert charges.standing(1, head=True) == pytest.approx(0.3)
    assert charges.standing(4, head=True) == pytest.approx(0.3 + 3 * 0.03)
    assert charges.standing(4, head=False) == pytest.approx(0.12)
    assert Charges.none().standing(9, head=True) == 0.0


@pytest.mark.parametrize(("quota", "steps"), [(2.5, 187.5), (0.4, 30.0), (3.9, 292.5)])
def test_a_quota_is_used_up_by_all_though_each_has_cores_of_its_own(quota: float, steps: float):
    """A step takes 1/100 s of an actor, its sample 1/300 s of the learner."""
    plan = plan_over(nodes(4), "L1A3")
    capped = plan.model_copy(update={"hosts": (plan.hosts[0].model_copy(update={"capacity": quota}),)})
    found = reached(capped)
    assert (found.env_steps_per_s, found.side) == (pytest.approx(steps), Side.CORES)


def test_a_quota_does_not_let_actors_use_a_core_that_a_learner_has_for_itself():
    plan = plan_over(nodes(2), "L1A4", oversubscribe=True)
    capped = plan.model_copy(update={"hosts": (plan.hosts[0].model_copy(update={"capacity": 1.9}),)})
    assert reached(capped).env_steps_per_s == pytest.approx(100.0)


def test_a_slow_network_holds_back_the_actors_behind_it():
    """72 bytes a step (two observations of four numbers, and 40): the network carries 50 of them a second."""
    plan = plan_over(nodes(2, 2), "L1A3")
    hosts = tuple(host.model_copy(update={"mb_per_s": 72 * 50 / 1e6}) for host in plan.hosts)
    found = reached(plan.model_copy(update={"hosts": hosts}))
    assert found.env_steps_per_s == pytest.approx(150.0)
    assert Side.NETWORK in {held.side for held in found.groups[0].held_by}


def test_off_policy_a_step_is_trained_on_several_times():
    plan = plan_over(nodes(8), "L1A2", algorithm="dqn")
    ratio = plan.job.algorithm.samples_per_insert  # type: ignore[union-attr]
    found = reached(plan, learner=100.0 * ratio)
    assert found.env_steps_per_s == pytest.approx(100.0)
    assert found.samples_per_s == pytest.approx(100.0 * ratio)
    assert found.groups[0].held_by == (Held(Side.LEARNER, 0),)


def test_sides_that_take_turns_add_up_their_times():
    plan = plan_over(nodes(8), "L1A1", training={"dependencies": "strict"})
    assert reached(plan, learner=100.0).env_steps_per_s == pytest.approx(50.0)
    assert predicted(plan.model_copy(update={"rates": {"tj1": host_rates()}})).bottleneck == "turns"


def test_who_leaves_is_not_counted():
    plan = plan_over(nodes(8), "L1A3")
    leaving = tuple(p.model_copy(update={"leaving": p.name == "actor-2"}) for p in plan.placements)
    assert reached(plan.model_copy(update={"placements": leaving})).env_steps_per_s == pytest.approx(200.0)


def test_nothing_is_predicted_where_nothing_was_measured():
    plan = plan_over(nodes(8), "L1A3")
    assert forecast(plan, {}) is None
    assert predicted(plan).env_steps_per_s is None


def test_a_host_that_joined_later_is_taken_to_be_like_the_first():
    plan = plan_over(nodes(2, 2), "L1A3").model_copy(update={"rates": {"tj1": host_rates()}})
    expected = predicted(plan)
    assert expected.env_steps_per_s == pytest.approx(300.0, rel=0.2)
    assert expected.updates_per_s is not None
