"""How a plan changes while its run lives, in the cases that people meet."""

from __future__ import annotations

import pytest

from runtime.contract.arrangement import (
    ArrangementError,
    difference,
    present_shape,
    rearrange,
    regroup,
    settle,
)  # fmt: skip
from runtime.contract.plan import HostPlan
from runtime.contract.shape import Shape
from runtime.contract.states import Role
from support.arranged import faults, nodes, plan_over, shape_of, staying

FOUR = nodes(2, 2, 2, 2)
MORE = (*FOUR, HostPlan(name="tj5", cores=(0, 1)), HostPlan(name="tj6", cores=(0, 1)))


@pytest.fixture
def plan():
    return plan_over(FOUR, "L2A8", oversubscribe=True)


def test_the_head_has_the_first_learner_and_every_group_its_own_node(plan):
    assert [plan.home(group) for group in plan.groups] == ["tj1", "tj2"]
    assert faults(plan) == []


def test_actors_are_near_their_learner_while_there_is_room():
    plan = plan_over(nodes(8, 8), "L2A6")
    assert all(p.host == plan.home(p.group) for p in plan.of_role(Role.ACTOR))


def test_actors_that_find_no_room_near_their_learner_prefer_a_node_that_is_linked_already():
    plan = plan_over(nodes(2, 3, 3), "L1A4")
    elsewhere = [p.host for p in plan.of_role(Role.ACTOR) if p.host != "tj1"]
    assert set(elsewhere) == {"tj2"}


def test_roles_of_a_node_are_respected():
    hosts = (
        HostPlan(name="tj1", cores=(0, 1, 2), roles=(Role.ACTOR,)),
        HostPlan(name="tj2", cores=(0, 1, 2), roles=(Role.LEARNER,)),
    )
    plan = plan_over(hosts, "L2A3")
    assert {p.host for p in plan.of_role(Role.LEARNER)} == {p.host for p in plan.of_role(Role.BUFFER)} == {"tj2"}
    assert {p.host for p in plan.of_role(Role.ACTOR)} == {"tj1"}


def test_a_run_grows_onto_two_more_nodes_and_comes_back_as_it_was(plan):
    grown = rearrange(plan, Shape(4, 16), hosts=MORE)
    assert (grown.revision, grown.shape, shape_of(grown)) == (2, "L4A16", "L4A16")
    assert grown.placements[: len(plan.placements)] == plan.placements
    assert {p.host for p in staying(grown, Role.LEARNER)} == {"tj1", "tj2", "tj5", "tj6"}
    assert {p.group: p.donor for p in grown.of_role(Role.LEARNER)} == {0: None, 1: None, 2: 0, 3: 0}
    back = settle(rearrange(settle(grown), Shape(2, 8)))
    assert back.placements == plan.placements
    assert (back.names_used.actors, back.names_used.groups) == (16, 4)


def test_a_second_growth_gives_new_names(plan):
    grown = settle(rearrange(plan, Shape(4, 16), hosts=MORE))
    again = rearrange(settle(rearrange(grown, Shape(2, 8))), Shape(4, 16))
    assert sorted(p.index for p in staying(again, Role.LEARNER)) == [0, 1, 4, 5]
    assert max(p.index for p in staying(again, Role.ACTOR)) == 23


def test_whole_groups_and_the_newest_actors_leave_first(plan):
    smaller = rearrange(plan, Shape(1, 3))
    assert {p.name for p in staying(smaller)} == {"learner-0", "buffer-0", "actor-0", "actor-1", "actor-2"}


def test_actors_are_split_evenly_when_a_learner_joins():
    plan = plan_over(nodes(16), "L1A8")
    grown = rearrange(plan, Shape(2, 8))
    by_group = [len([p for p in staying(grown, Role.ACTOR) if p.group == group]) for group in (0, 1)]
    assert by_group == [4, 4]


def test_the_same_shape_changes_nothing(plan):
    assert rearrange(plan, Shape(2, 8)) is plan


def test_settling_what_is_settled_changes_nothing(plan):
    assert settle(plan) is plan


def test_a_shape_that_does_not_fit_names_the_nearest_that_does():
    plan = plan_over(nodes(4, 4), "L1A4")
    with pytest.raises(ArrangementError, match="no core is free for an actor") as raised:
        rearrange(plan, Shape(2, 8))
    assert raised.value.hint == "L2A6 is the nearest shape that fits"


def test_a_group_too_small_for_a_batch_is_refused_with_a_shape_that_is_large_enough():
    plan = plan_over(nodes(16), "L1A8", training={"batch_size": 512})
    least = -(-plan.sizes.fragments_per_batch // plan.sizes.ring_slots)
    assert least > 1
    with pytest.raises(ArrangementError, match="fill a batch") as raised:
        rearrange(plan, Shape(1, least - 1))
    assert raised.value.hint.startswith(f"L1A{least} ")


def test_a_node_that_is_to_leave_is_emptied_and_is_no_node_after_that(plan):
    leaving = rearrange(plan, Shape(2, 8), leave=frozenset({"tj2"}))
    assert not [p for p in staying(leaving) if p.host == "tj2"]
    assert shape_of(leaving) == "L2A8"
    assert leaving.host("tj2").leaving
    assert [host.name for host in settle(leaving).hosts] == ["tj1", "tj3", "tj4"]
    assert difference(plan, leaving).hosts_left == ("tj2",)


def test_the_last_learner_hands_over_to_one_elsewhere_when_its_node_is_to_leave():
    hosts = (HostPlan(name="tj1", cores=(0,), roles=(Role.ACTOR,)), *nodes(4, 4, 4)[1:])
    plan = plan_over(hosts, "L1A2")
    home = plan.home(0)
    moved = rearrange(plan, Shape(1, 2), leave=frozenset({home}))
    learner = staying(moved, Role.LEARNER)[0]
    assert (learner.donor, learner.name) == (0, "learner-1")
    assert learner.host != home


def test_the_head_cannot_leave(plan):
    with pytest.raises(ArrangementError, match="head"):
        rearrange(plan, Shape(1, 2), leave=frozenset({"tj1"}))


def test_a_node_that_lost_everything_is_used_again_under_new_names(plan):
    again = rearrange(plan, Shape(2, 8), gone=frozenset({"tj4"}))
    assert shape_of(again) == "L2A8"
    there = {p.name for p in staying(again) if p.host == "tj4"}
    assert there
    assert not there & {p.name for p in plan.on("tj4")}


def test_the_last_learner_cannot_be_replaced_when_its_node_lost_everything():
    plan = plan_over(nodes(4, 4), "L1A2")
    with pytest.raises(ArrangementError, match="no learner is left"):
        rearrange(plan, Shape(1, 2), gone=frozenset({"tj1"}))


def test_actors_of_a_group_whose_home_is_away_join_another_on_the_same_cores(plan):
    away = frozenset({"tj2"})
    after = regroup(plan, away)
    old = [p for p in plan.of_role(Role.ACTOR) if p.group == 1 and p.host not in away]
    new = [p for p in staying(after, Role.ACTOR) if p.name not in {q.name for q in plan.placements}]
    assert [(p.host, p.cores, p.group) for p in new] == [(p.host, p.cores, 0) for p in old]
    assert [p for p in after.placements if p.host in away] == list(plan.on("tj2"))
    assert regroup(after, away) is after
    assert present_shape(after, away) == Shape(1, 6)


def test_actors_of_a_learner_that_is_still_awaited_stay_with_it(plan):
    away = frozenset({"tj2"})
    assert regroup(plan, away, awaited=away) is plan


def test_groups_are_evened_out_when_the_node_is_back(plan):
    after = settle(regroup(plan, frozenset({"tj2"})))
    back = rearrange(after, Shape(2, 8))
    sizes = [len([p for p in staying(back, Role.ACTOR) if p.group == group]) for group in (0, 1)]
    assert sizes == [4, 4]


def test_a_group_that_lost_its_actors_is_given_some_of_the_others():
    plan = plan_over(nodes(2, 2, 2), "L2A4")
    on = {0: "tj2", 1: "tj3"}
    moved = [p.model_copy(update={"host": on[p.group]}) if p.role is Role.ACTOR else p for p in plan.placements]
    homes = [p.model_copy(update={"host": "tj1"}) if p.role is not Role.ACTOR else p for p in moved]
    plan = plan.model_copy(update={"placements": tuple(homes)})
    after = regroup(plan, frozenset({"tj3"}))
    assert [p.group for p in staying(after, Role.ACTOR) if p.host == "tj2"] == [0, 1]
    assert after.on("tj3") == plan.on("tj3")


def test_nobody_is_regrouped_where_no_learner_is_left(plan):
    assert regroup(plan, frozenset({"tj1", "tj2"})) is plan


def test_the_evaluator_follows_when_its_group_leaves():
    plan = plan_over(nodes(4, 4), "L2A4", evaluation={"enabled": True})
    watched = plan.of_role(Role.EVALUATOR)[0].group
    assert watched == 0
    moved = rearrange(rearrange(plan, Shape(2, 4), gone=frozenset({plan.home(0)})), Shape(2, 4))
    old, new = moved.of_role(Role.EVALUATOR)
    assert (old.leaving, new.name, new.leaving) == (True, "evaluator-1", False)
    assert new.group in {p.group for p in staying(moved, Role.LEARNER)}


def test_the_difference_names_who_starts_where_and_what_it_means(plan):
    told = difference(plan, rearrange(plan, Shape(3, 9), hosts=MORE))
    assert (told.shape_before, told.shape_after, told.revision) == ("L2A8", "L3A9", 2)
    assert "learner-2 on tj5" in told.starts
    assert told.leaves == ("actor-3 on tj1", "actor-7 on tj2")
    assert told.hosts_added == ("tj5", "tj6")
    assert told.stays == 10
    assert "learner-2 begins with the parameters and the optimiser of learner-0" in told.notes


def test_who_is_asked_for_more_actors_than_there_are_names_is_told_to_resume():
    plan = plan_over(nodes(64), "L1A8").model_copy(update={"names_used": {"actors": 4095, "groups": 1}})
    plan = plan.model_validate(plan.model_dump(warnings=False))
    with pytest.raises(ArrangementError, match="no name is given twice"):
        rearrange(plan, Shape(1, 10))
