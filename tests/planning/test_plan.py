"""Whole plans: placement, prediction, refusals, and the check that needs no solver."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planning_problems import CARTPOLE, MIB, PRINTS, cores, curve, job, node, one, problem, rates

from runtime.contract.plan import Plan
from runtime.contract.shape import Shape
from runtime.contract.states import Role
from tianjictl.errors import Infeasible
from tianjictl.planning.build import make_plan, plan_bytes
from tianjictl.planning.check import check
from tianjictl.planning.decide import solve
from tianjictl.planning.problem import Problem
from tianjictl.planning.stating import state


def planned(p: Problem, **sections: Any) -> Plan:
    return make_plan(p, job(**sections), CARTPOLE, PRINTS)


def pins(plan: Plan, role: Role) -> list[tuple[int, ...]]:
    return [placement.cores for placement in plan.of_role(role)]


def test_two_cores_run_one_learner_and_one_actor() -> None:
    p = one(2)
    plan = planned(p)
    assert plan.shape == "L1A1"
    assert pins(plan, Role.LEARNER) == [(0,)]
    assert pins(plan, Role.ACTOR) == [(1,)]
    assert pins(plan, Role.BUFFER) == [(1,)], "the learner is what should not be disturbed"
    assert plan.hosts[0].oversubscription == 0.0
    assert check(plan, p) == []


def test_a_shape_that_needs_more_cores_is_refused_with_the_nearest_that_fits() -> None:
    with pytest.raises(Infeasible) as refusal:
        planned(one(2, learners=2, actors=4))
    assert "L2A4 needs 6 cores" in refusal.value.message
    assert "has 2 usable" in refusal.value.message
    assert refusal.value.hint is not None
    assert "--shape L1A1" in refusal.value.hint
    assert "--oversubscribe" in refusal.value.hint
    assert refusal.value.exit_code == 3


@pytest.mark.parametrize(
    ("num_cores", "asked", "nearest"),
    [(8, (2, 40), "L2A6"), (5, (4, 8), "L2A3"), (3, (9, 9), "L1A2"), (6, (3, 4), "L3A3")],
)
def test_the_nearest_shape_keeps_the_learners_where_it_can(
    num_cores: int, asked: tuple[int, int], nearest: str
) -> None:
    with pytest.raises(Infeasible) as refusal:
        planned(one(num_cores, learners=asked[0], actors=asked[1]))
    assert f"--shape {nearest}:" in f"{refusal.value.hint}:".replace(";", ":")
    shape = Shape.parse(nearest)
    p = one(num_cores, learners=shape.learners, actors=shape.actors)
    assert check(planned(p), p) == []


def test_one_core_is_infeasible_until_cores_may_be_shared() -> None:
    with pytest.raises(Infeasible, match="needs 2 cores"):
        planned(one(1))
    p = one(1, oversubscribe=True)
    plan = planned(p)
    assert plan.shape == "L1A1"
    assert {placement.cores for placement in plan.placements} == {(0,)}
    assert plan.hosts[0].oversubscription == pytest.approx(2.28)
    assert check(plan, p) == []


@pytest.mark.parametrize("oversubscribe", [False, True])
def test_a_million_actors_are_refused_at_once(oversubscribe: bool) -> None:
    with pytest.raises(Infeasible) as refusal:
        planned(one(2, learners=1, actors=10**6, oversubscribe=oversubscribe))
    assert "L1A1000000 needs 1000001 cores" in refusal.value.message
    assert any("memory" in text for text in refusal.value.details)


def test_too_little_memory_is_named_as_what_binds() -> None:
    with pytest.raises(Infeasible, match="memory") as refusal:
        planned(one(16, learners=1, actors=8, memory_bytes=800 * MIB))
    assert "--shape L1A3" in str(refusal.value.hint)


def test_with_oversubscription_the_learner_keeps_its_core_and_actors_share_the_rest() -> None:
    p = one(2, learners=1, actors=2, oversubscribe=True)
    plan = planned(p)
    assert pins(plan, Role.LEARNER) == [(0,)]
    assert pins(plan, Role.ACTOR) == [(1,), (1,)]
    shares = [placement.core_share for placement in plan.of_role(Role.ACTOR)]
    assert shares[0] == shares[1] == pytest.approx(1 / 2.28, abs=1e-5)
    assert plan.hosts[0].oversubscription == pytest.approx(3.28 / 2)
    assert any("oversubscribed 1.64×" in line for line in plan.predicted.explanation)
    assert check(plan, p) == []


def test_more_learners_than_cores_allow_are_dealt_out_and_so_are_the_actors() -> None:
    p = one(2, learners=2, actors=4, oversubscribe=True)
    plan = planned(p)
    assert pins(plan, Role.LEARNER) == [(0,), (1,)]
    assert sorted(pins(plan, Role.ACTOR)) == [(0,), (0,), (1,), (1,)]
    assert [placement.group for placement in plan.of_role(Role.ACTOR)] == [0, 0, 1, 1]
    assert any("slows both" in note for note in plan.notes)
    assert check(plan, p) == []


def test_actors_that_do_not_divide_evenly_float_over_the_shared_cores() -> None:
    p = one(3, learners=1, actors=3, oversubscribe=True)
    plan = planned(p)
    assert pins(plan, Role.ACTOR) == [(1, 2)] * 3
    assert check(plan, p) == []


def test_pins_are_the_operating_systems_numbers() -> None:
    odd = tuple(core for core in cores(8) if core.cpu in (3, 5, 6, 7))
    plan = planned(one(cores=odd, learners=1, actors=3))
    assert pins(plan, Role.LEARNER) == [(3,)]
    assert pins(plan, Role.ACTOR) == [(5,), (6,), (7,)]


def test_learners_stay_inside_one_numa_node_where_they_fit() -> None:
    p = one(cores=cores(10, domains=2), learners=2, actors=2, learner_cores=3)
    plan = planned(p)
    assert pins(plan, Role.LEARNER) == [(0, 1, 2), (5, 6, 7)]
    assert [placement.threads for placement in plan.of_role(Role.LEARNER)] == [3, 3]
    assert pins(plan, Role.ACTOR) == [(3,), (8,)], "an actor sits in its learner's node"
    assert set(pins(plan, Role.BUFFER)) == {(4, 9)}, "light components take the cores nobody has"
    assert check(plan, p) == []


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (2, 4), (3, 7), (4, 16), (8, 9)])
@pytest.mark.parametrize("num_cores", [1, 2, 3, 7, 16, 40])
def test_every_plan_passes_the_check(algorithm: str, shape: tuple[int, int], num_cores: int) -> None:
    p = one(
        cores=cores(num_cores, domains=2 if num_cores > 4 else 1),
        learners=shape[0],
        actors=shape[1],
        oversubscribe=True,
        evaluator=shape[1] % 2 == 0,
        rates=rates(),
        ratio=8.0 if algorithm == "dqn" else 1.0,
    )
    assert check(planned(p, algorithm=algorithm), p) == []


def test_the_same_input_gives_the_same_bytes() -> None:
    p = one(12, rates=rates(), evaluator=True)
    first, second = plan_bytes(planned(p)), plan_bytes(planned(p))
    assert first == second
    assert Plan.model_validate_json(first) == planned(p)


def test_another_process_makes_the_same_bytes_whatever_its_hash_seed() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r});"
        "from planning_problems import *; from tianjictl.planning.build import *;"
        "p = one(12, rates=rates(), evaluator=True);"
        "sys.stdout.buffer.write(plan_bytes(make_plan(p, job(), CARTPOLE, PRINTS)))"
    )
    made = [
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert made[0] == made[1] == plan_bytes(planned(one(12, rates=rates(), evaluator=True)))


def test_a_fixed_shape_on_one_node_is_planned_without_the_solver() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r});"
        "from planning_problems import *; from tianjictl.planning.build import *;"
        "make_plan(one(8, rates=rates(), learners=1, actors=2), job(), CARTPOLE, PRINTS);"
        "sys.exit('ortools' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_prediction_is_bounded_by_the_slower_side() -> None:
    slow_learner = one(8, rates=rates(learner=5_000.0), learners=1, actors=2, learner_cores=1)
    plan = planned(slow_learner)
    assert plan.predicted.samples_per_s == pytest.approx(5_000)
    assert plan.predicted.env_steps_per_s == pytest.approx(5_000)
    assert plan.predicted.bottleneck == "learner"
    assert plan.predicted.updates_per_s == pytest.approx(5_000 / plan.sizes.batch_size, rel=1e-4)
    slow_env = one(8, rates=rates(actor=100.0), learners=1, actors=2, learner_cores=1)
    assert planned(slow_env).predicted.bottleneck == "actors"
    assert planned(slow_env).predicted.env_steps_per_s == pytest.approx(200)


def test_off_policy_steps_follow_the_pace_of_the_job() -> None:
    p = one(8, rates=rates(learner=40_000.0), learners=1, actors=2, learner_cores=1, ratio=8.0)
    predicted = planned(p, algorithm="dqn").predicted
    assert predicted.samples_per_s == pytest.approx(40_000)
    assert predicted.env_steps_per_s == pytest.approx(5_000)


def test_two_actors_on_one_core_give_together_what_it_has_time_for() -> None:
    quick = rates(actor=10_000.0, learner=1e9, buffer_s=0.0)
    p = one(2, rates=quick, learners=1, actors=2, learner_cores=1, oversubscribe=True)
    predicted = planned(p).predicted
    assert predicted.env_steps_per_s == pytest.approx(9_700), "agent and coordinator take 0.03 of the core"
    assert predicted.bottleneck == "cores"
    waiting = rates(actor=10_000.0, actor_cpu_s_per_step=1e-5, learner=1e9, buffer_s=0.0)
    p = one(2, rates=waiting, learners=1, actors=2, learner_cores=1, oversubscribe=True)
    assert planned(p).predicted.env_steps_per_s == pytest.approx(20_000), "they mostly wait for their simulator"


def test_taking_turns_adds_up_the_times() -> None:
    p = one(8, rates=rates(actor=10_000, learner=10_000), learners=1, actors=1, learner_cores=1, turns=True)
    predicted = planned(p, training={"dependencies": "strict"}).predicted
    assert predicted.samples_per_s == pytest.approx(5_000, rel=0.05)
    assert predicted.bottleneck == "turns"


def test_a_plan_carries_the_rates_that_it_was_made_from_and_what_limits_its_host() -> None:
    p = one(4, rates=rates(), learners=1, actors=2, capacity=3.5, mb_per_s=125.0)
    plan = make_plan(p, job(), CARTPOLE, PRINTS, profile_keys={"n1": "key"})
    assert plan.rates == {"n1": rates()}
    assert plan.profile_keys == {"n1": "key"}
    assert (plan.hosts[0].capacity, plan.hosts[0].mb_per_s) == (3.5, 125.0)
    assert any("a quota allows 3.5" in note for note in plan.notes)
    assert check(plan, p) == []


def test_a_learner_that_is_best_with_every_core_of_a_node_shares_them_with_what_is_light() -> None:
    """Nobody else may be on n1, so its two cores are all for the learner; its buffer has to live there too."""
    linear = rates(1_000.0, buffer_s=0.0).model_copy(update={"learner": curve(c1=1_000.0, c2=2_000.0)})
    alone = node("n1", 2, (Role.LEARNER, Role.BUFFER), rates=linear)
    p = problem(alone, node("n2", 4, (Role.ACTOR,), rates=linear), learners=1)
    found = solve(p)
    assert found is not None
    assert (found.learner_cores, str(found.shape)) == (2, "L1A2")
    assert found.value == pytest.approx(2_000 * (2 - 0.065) / 2, rel=1e-5)
    plan = planned(p)
    assert plan.predicted.samples_per_s == pytest.approx(found.value, rel=1e-4)
    assert pins(plan, Role.BUFFER) == [(0, 1)]
    assert check(plan, p) == []


def test_where_memory_is_short_an_automatic_buffer_is_as_large_as_it_allows() -> None:
    dqn = job("dqn", distributed={"learners": 1, "actors": 1}, evaluation={"enabled": False})
    roomy, tight = node(memory_bytes=64 << 30), node(memory_bytes=700 * MIB)
    usual = make_plan(state(dqn, CARTPOLE, [roomy]), dqn, CARTPOLE, PRINTS)
    wide = CARTPOLE.model_copy(update={"observation_shape": (300,)})
    p = state(dqn, wide, [tight])
    plan = make_plan(p, dqn, wide, PRINTS)
    assert usual.sizes.buffer_size == 65_536
    assert 0.9 * 700 * MIB * 0.995 < p.memory.of(1, 1) <= 0.9 * 700 * MIB
    assert plan.sizes.buffer_size < usual.sizes.buffer_size
    assert plan.sizes.pool_ratio <= plan.sizes.staleness_tolerance
    assert any("memory allows no more" in note for note in plan.notes)
    assert check(plan, p) == []
    fixed = job("dqn", distributed={"learners": 1, "actors": 1, "buffer_size": 65_536})
    with pytest.raises(Infeasible, match="memory"):
        make_plan(state(fixed, wide, [tight]), fixed, wide, PRINTS)


BREAKAGES: dict[str, tuple[Any, str]] = {
    "an actor is missing": (lambda d: d["placements"].pop(-1), "wants actor"),
    "a pin is outside the cpuset": (lambda d: d["placements"][0].update(cores=[99]), "usable are"),
    "two actors on one core": (lambda d: d["placements"][-1].update(cores=d["placements"][-2]["cores"]), "has 2"),
    "a learner with too many threads": (lambda d: d["placements"][0].update(threads=4), "threads"),
    "an actor in the wrong group": (lambda d: d["placements"][-1].update(group=0), "group"),
    "a name used twice": (lambda d: d["placements"][-1].update(name="actor-0"), "are called actor-0"),
    "another host": (lambda d: d["placements"][-1].update(host="n9"), "not a host"),
    "an invented oversubscription": (lambda d: d["hosts"][0].update(oversubscription=2.0), "fit the cores"),
    "another shape": (lambda d: d.update(shape="L2A3"), "not what was asked for"),
    "a core charged twice": (lambda d: d["placements"][-1].update(core_share=1.9), "is charged"),
    "P above the tolerance": (lambda d: d["sizes"].update(staleness_tolerance=0.01), "tolerance"),
    "a batch larger than the buffer": (lambda d: d["sizes"].update(batch_size=10**9), "larger than the buffer"),
    "a wrong P": (lambda d: d["sizes"].update(pool_ratio=0.001), "P is stated"),
    "a batch of no whole fragments": (lambda d: d["sizes"].update(fragments_per_batch=99), "no batch of"),
    "a promise beyond what was measured": (lambda d: d["predicted"].update(samples_per_s=1e9), "at most"),
}


@pytest.mark.parametrize("what", BREAKAGES)
def test_the_check_catches_a_corrupted_plan(what: str) -> None:
    breaks, words = BREAKAGES[what]
    p = one(8, rates=rates(), learners=2, actors=4, learner_cores=1)
    document = planned(p).model_dump(mode="json")
    assert check(Plan.model_validate(document), p) == []
    breaks(document)
    found = check(Plan.model_validate(document), p)
    assert any(words in text for text in found), found


def test_the_check_catches_sharing_that_was_not_allowed() -> None:
    p = one(2, learners=1, actors=2, oversubscribe=True)
    plan = planned(p)
    assert any("not allowed" in text for text in check(plan, replace(p, oversubscribe=False)))
    host = plan.hosts[0].model_copy(update={"oversubscription": 1.1})
    assert any("it is 1.5 and" in text for text in check(plan.model_copy(update={"hosts": (host,)}), p))


def test_the_check_catches_what_a_host_cannot_hold() -> None:
    p = one(8, learners=1, actors=4, rates=rates(), domains=2, learner_cores=2, mb_per_s=10.0)
    plan, (here,) = planned(p), p.nodes
    assert check(plan, p) == []
    small = replace(p, nodes=(replace(here, memory_bytes=200 * MIB),))
    assert any("memory" in text for text in check(plan, small))
    slower = replace(p, nodes=(replace(here, mb_per_s=1.0),))
    assert any("network" in text for text in check(plan, slower))
    scattered = replace(p, nodes=(replace(here, cores=cores(8, domains=4)[::2] + cores(8, domains=4)[1::2]),))
    assert check(plan, scattered) == []
    document = plan.model_dump(mode="json")
    document["placements"][0].update(cores=[0, 7])
    assert any("NUMA domains" in text for text in check(Plan.model_validate(document), p))
    assert any("elastic range" in text for text in check(plan, replace(p, most=Shape(1, 2))))


@pytest.mark.parametrize(("asked", "told"), [(65_536, True), (16_384, False), (16_500, False), ("auto", False)])
def test_a_buffer_that_freshness_makes_smaller_than_asked_is_told_of(asked: int | str, told: bool) -> None:
    plan = planned(one(3, learners=1, actors=2), distributed={"buffer_size": asked}, training={"batch_size": 2048})
    notes = [note for note in plan.notes if "distributed.buffer_size" in note]
    assert bool(notes) is told
    if told:
        most = plan.sizes.buffer_size
        assert most < 65_536
        assert notes == [
            f"distributed.buffer_size is {most} instead of 65536: more than {most} would pass algorithm.max_lag 8"
        ]
