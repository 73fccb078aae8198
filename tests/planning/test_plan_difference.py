"""From the plan of a living run to another: what starts, changes and leaves, and which command does it."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.contract.arrangement import rearrange, settle
from runtime.contract.plan import HostPlan, NamesUsed, Plan
from runtime.contract.shape import Shape
from runtime.contract.states import Role
from support.arranged import nodes, plan_over
from tianjictl.planning.difference_words import counted, lines
from tianjictl.planning.plan_difference import Way, commands, difference


def told(living: Plan, wanted: Plan) -> str:
    return "\n".join(lines(difference(living, wanted)))


def with_component(plan: Plan, which: str, /, **changes: Any) -> Plan:
    """The plan with one component changed."""
    return plan.model_copy(
        update={"placements": tuple(p.model_copy(update=changes) if p.name == which else p for p in plan.placements)}
    )


@pytest.fixture
def living() -> Plan:
    return plan_over(nodes(4, 4), "L1A4")


def test_a_run_that_works_by_the_plan_has_nothing_to_change(living: Plan) -> None:
    found = difference(living, living)
    assert (found.way, found.differs) == (Way.NOTHING, False)
    assert lines(found) == ["= 6 components stay as they are"]
    assert commands(found, "run") == ()


def test_more_actors_start_under_names_that_were_never_given(living: Plan) -> None:
    used = living.model_copy(update={"names_used": NamesUsed(actors=9, groups=1)})
    wanted = settle(rearrange(living, Shape(1, 6)))
    found = difference(used, wanted)
    assert found.starts == ("actor-9 on tj2", "actor-10 on tj2")
    assert found.leaves == ()
    assert found.way is Way.SCALE
    assert commands(found, "run-1", ("job.yaml",), "hosts.yaml") == ("tianjictl scale run-1 L1A6",)


def test_a_new_learner_brings_a_group_of_its_own(living: Plan) -> None:
    found = difference(living, plan_over(nodes(4, 4), "L2A4"))
    assert {"learner-1 on tj2", "buffer-1 on tj2"} <= set(found.starts)
    assert commands(found, "r") == ("tianjictl scale r L2A4",)


def test_gaps_in_the_names_of_a_run_that_shrank_are_no_difference() -> None:
    small = plan_over(nodes(4, 4), "L1A3")
    renamed = with_component(small, "actor-1", name="actor-7", index=7)
    found = difference(renamed, small)
    assert (found.starts, found.leaves, found.moves) == ((), (), ())
    assert found.way is Way.NOTHING


def test_what_is_leaving_already_is_not_counted(living: Plan) -> None:
    small = plan_over(nodes(4, 4), "L1A3")
    leaving = with_component(living, "actor-3", leaving=True)
    assert difference(leaving, small).leaves == ()


def test_hosts_that_join_and_leave_are_named_in_the_command(living: Plan) -> None:
    wanted = plan_over((nodes(4)[0], HostPlan(name="tj3", cores=(0, 1, 2, 3))), "L1A4")
    found = difference(living, wanted)
    assert (found.hosts_added, found.hosts_left) == (("tj3",), ("tj2",))
    text = "\n".join(lines(found))
    assert "+ host tj3" in text
    assert "- host tj2" in text
    assert commands(found, "r", ("job.yaml",), "my hosts.yaml") == (
        "tianjictl scale r --add-host tj3 --remove-host tj2 -i 'my hosts.yaml'",
    )


def test_another_head_needs_stop_and_resume(living: Plan) -> None:
    found = difference(living, living.model_copy(update={"hosts": living.hosts[::-1]}))
    assert found.way is Way.RESUME
    assert "coordinator runs on tj1" in found.why
    stop, resume = commands(found, "r", ("job.yaml",), "hosts.yaml")
    assert stop == "tianjictl stop r"
    assert resume == "tianjictl resume r --from-checkpoint --shape L1A4 -i hosts.yaml"


def test_a_component_on_other_cores_or_of_another_group_is_shown_as_changed() -> None:
    living = plan_over(nodes(8), "L2A4")
    moved = with_component(living, "actor-3", cores=(7,), group=0)
    found = difference(living, moved)
    before = next(p for p in living.of_role(Role.ACTOR) if p.name == "actor-3")
    assert [move.name for move in found.moves] == ["actor-3"]
    assert f"~ actor-3 on tj1: CPUs {before.cores[0]} → 7, group {before.group} → 0" in told(living, moved)
    assert found.way is Way.RESUME
    assert "keep their cores" in found.why


def test_sizes_that_differ_are_kept_by_scaling_and_the_difference_says_so() -> None:
    living, wanted = plan_over(nodes(8, 8), "L1A4"), plan_over(nodes(8, 8), "L1A8")
    found = difference(living, wanted)
    assert found.way is Way.SCALE
    batch = next(line for line in lines(found) if line.startswith("~ batch_size"))
    assert f"{living.sizes.batch_size:,} → {wanted.sizes.batch_size:,}" in batch
    assert f"keeps {living.sizes.batch_size:,}" in batch
    assert "stop and resume" in batch


def test_another_key_of_the_job_begins_a_new_training(living: Plan) -> None:
    wanted = plan_over(nodes(4, 4), "L1A4", training={"seed": 3})
    found = difference(living, wanted)
    assert found.way is Way.LAUNCH
    assert "~ training.seed 0 → 3" in lines(found)
    assert "training.seed" in found.why
    assert commands(found, "r", ("job.yaml", "--set", "training.seed=3")) == (
        "tianjictl stop r",
        "tianjictl launch job.yaml --set training.seed=3",
    )


def test_of_another_algorithm_what_matters_comes_first_and_nothing_twice_or_by_an_internal_name() -> None:
    living = plan_over(nodes(8), "L1A4")
    wanted = plan_over(nodes(8), "L1A2", algorithm="dqn", env={"num_envs": 32}, training={"batch_size": 128})
    shown = lines(difference(living, wanted))
    assert shown[0] == "~ algorithm.name ppo → dqn"
    assert not [line for line in shown if "none" in line or line[2:].startswith(("ring_slots", "fragments_per", "+"))]
    keys = [line.split()[1].rpartition(".")[2] for line in shown]
    assert len(keys) == len(set(keys))
    assert len(shown) < 20
    envs = next(line for line in shown if "num_envs" in line)
    assert envs.startswith("~ env.num_envs ")
    assert "and algorithm.name" in (found := difference(living, wanted)).why
    assert found.way is Way.LAUNCH
    assert "gae_lambda" not in "".join(shown), "which PPO alone has"
    assert "key" in counted(difference(living, wanted))


def test_what_auto_comes_to_is_told_with_the_key_and_a_key_left_out_is_called_so() -> None:
    living = plan_over(nodes(8), "L1A4", training={"batch_size": "auto"})
    batch = 2 * living.sizes.batch_size
    wanted = plan_over(nodes(8), "L1A4", training={"batch_size": batch, "stop": {"reward": 475}})
    shown = lines(difference(living, wanted))
    (line,) = [line for line in shown if "batch_size" in line]
    assert line == f"~ training.batch_size auto → {batch:,}  (in effect {living.sizes.batch_size:,} → {batch:,})"
    assert "~ training.stop.reward not given → 475" in shown


def test_the_difference_is_what_scaling_then_does(living: Plan) -> None:
    """The names of `plan --against` and of `scale` are the same."""
    wanted = rearrange(living, Shape(1, 6))
    found = difference(living, settle(wanted))
    started = {f"{p.name} on {p.host}" for p in wanted.placements} - {
        f"{p.name} on {p.host}" for p in living.placements
    }
    assert set(found.starts) == started


def test_what_a_coordinator_would_refuse_needs_stop_and_resume() -> None:
    living = plan_over(nodes(2), "L1A1")
    found = difference(living, plan_over(nodes(2), "L1A3", oversubscribe=True))
    assert found.way is Way.RESUME
    assert "no core is free for an actor" in found.why
    assert commands(found, "r")[1] == "tianjictl resume r --from-checkpoint --shape L1A3 --oversubscribe"
