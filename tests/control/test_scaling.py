"""What an operator who asks for another shape is answered."""

from __future__ import annotations

import pytest

from runtime.contract.arrangement import rearrange
from runtime.contract.operator import Difference, ScaleRequest
from runtime.contract.plan import HostPlan, Plan
from runtime.contract.shape import Shape
from runtime.contract.states import RunState
from runtime.control.scaling import Answer, answer
from support.arranged import nodes, plan_over

NEW = HostPlan(name="tj9", cores=(0, 1, 2, 3))


@pytest.fixture
def plan() -> Plan:
    return plan_over(nodes(4, 4), "L1A4")


def ask(plan: Plan, *, state: RunState = RunState.RUNNING, away: frozenset[str] = frozenset(), **request) -> Answer:
    return answer(ScaleRequest(**request), plan, state=state, away=away)


def test_who_asks_for_another_shape_is_told_the_difference_and_gets_the_plan(plan):
    found = ask(plan, shape="L2A6")
    assert found.reply.ok
    assert found.plan is not None
    assert found.plan.shape == "L2A6"
    told = Difference.model_validate(found.reply.data)
    assert told == found.difference
    assert (told.shape_before, told.shape_after) == ("L1A4", "L2A6")


def test_a_dry_run_tells_the_same_and_changes_nothing(plan):
    dry, real = ask(plan, shape="L2A6", dry_run=True), ask(plan, shape="L2A6")
    assert dry.plan is None
    assert dry.reply == real.reply


def test_the_shape_that_is_there_already_is_no_change(plan):
    found = ask(plan, shape="L1A4")
    assert found.reply.ok
    assert found.plan is None
    assert Difference.model_validate(found.reply.data).starts == ()


def test_a_host_that_is_added_is_used(plan):
    found = ask(plan, shape="L2A10", add=(NEW,))
    assert found.plan is not None
    assert found.plan.on("tj9")
    assert Difference.model_validate(found.reply.data).hosts_added == ("tj9",)


def test_without_a_shape_the_shape_stays_and_the_hosts_change(plan):
    added = ask(plan, add=(NEW,))
    assert added.plan is not None
    assert added.plan.shape == "L1A4"
    left = ask(added.plan, remove=("tj2",))
    assert left.plan is not None
    assert left.plan.host("tj2").leaving


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"shape": "4x16"}, "not a shape"),
        ({"shape": "L2A9"}, "L2A6 is the nearest shape that fits"),
        ({"remove": ("tj7",)}, "its nodes are tj1, tj2"),
        ({"remove": ("tj1",)}, "the head"),
        ({"add": (HostPlan(name="tj2", cores=(0,)),)}, "a node of this run already"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(plan, request_, words):
    found = ask(plan, **request_)
    assert found.plan is None
    assert words in f"{found.reply.error} {found.reply.hint}"
    assert found.reply.infeasible == ("fits" in words or "head" in words)
    assert found.reply.mistaken == (not found.reply.infeasible)


@pytest.mark.parametrize("state", [s for s in RunState if s not in (RunState.RUNNING, RunState.DEGRADED)])
def test_only_a_run_that_trains_is_scaled(plan, state):
    assert f"the run is {state}" in (ask(plan, state=state, shape="L2A6").reply.error or "")


def test_one_change_at_a_time(plan):
    under_way = rearrange(plan, Shape(2, 6))
    assert "still under way" in (ask(under_way, shape="L1A2").reply.error or "")


def test_a_strict_run_keeps_its_shape():
    plan = plan_over(nodes(4), "L1A1", training={"dependencies": "strict"})
    assert "resume it with --shape" in (ask(plan, shape="L1A2").reply.hint or "")


def test_the_job_itself_bounds_the_shape():
    plan = plan_over(nodes(8), "L1A4", elastic={"min": "L1A2", "max": "L2A5"})
    below, above = ask(plan, shape="L1A1").reply, ask(plan, shape="L1A6").reply
    assert "below the job's elastic.min L1A2" in (below.error or "")
    assert "above the job's elastic.max L2A5" in (above.error or "")
    assert (below.hint or "").endswith("L1A2")
    assert (above.hint or "").endswith("L1A5")
    assert below.infeasible
    assert above.infeasible
    assert ask(plan, shape="L2A5").reply.ok


def test_nothing_new_goes_to_a_node_that_does_not_answer(plan):
    found = ask(plan, shape="L1A5", away=frozenset({"tj2"}))
    assert "no core is free" in (found.reply.error or "")


def test_a_lost_node_may_join_again_and_keeps_its_place(plan):
    found = ask(plan, add=(HostPlan(name="tj2", cores=(0, 1, 2, 3)),), away=frozenset({"tj2"}))
    assert found.reply.ok
    assert found.plan is None, "its agent is missing, and nothing else"
    changing = rearrange(plan, Shape.parse("L1A3"))
    assert ask(changing, shape="L1A3", add=(HostPlan(name="tj2", cores=(0,)),), away=frozenset({"tj2"})).reply.ok
    assert not ask(changing, shape="L1A4", add=(HostPlan(name="tj2", cores=(0,)),), away=frozenset({"tj2"})).reply.ok
