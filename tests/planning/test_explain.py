"""Bottlenecks made on purpose, and whether the explanation names them; what more of anything is worth."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from planning_problems import CARTPOLE, MIB, PRINTS, job, node, one, problem, rates

from runtime.contract.plan import HostPlan, Plan
from runtime.contract.predicting import predicted
from runtime.contract.shape import Shape
from runtime.contract.sizes import resolve_sizes
from runtime.contract.states import Role
from tianjictl.planning.cause import Cause, time_of
from tianjictl.planning.decide import solve
from tianjictl.planning.explain import Explanation, brief, explain
from tianjictl.planning.placement import place

if TYPE_CHECKING:
    from tianjictl.planning.marginal import Marginal
    from tianjictl.planning.problem import Problem
    from tianjictl.planning.solution import Solution

MB = 1_000_000


def planned(p: Problem, algorithm: str = "ppo", **sections: Any) -> tuple[Solution, Plan]:
    """With little effort: what is explained need not be proved."""
    solution = solve(p, effort=0.05)
    assert solution is not None
    wanted = job(algorithm, **sections)
    made = Plan(
        shape=str(solution.shape),
        job=wanted,
        env=CARTPOLE,
        sizes=resolve_sizes(wanted, solution.shape, CARTPOLE),
        hosts=tuple(
            HostPlan(name=n.name, cores=tuple(c.cpu for c in n.cores), capacity=n.capacity, mb_per_s=n.mb_per_s)
            for n in p.nodes
        ),
        placements=place(p, solution).components,
        rates={n.name: n.rates for n in p.nodes if n.rates is not None},
        fingerprints=PRINTS,
        solver=solution.proof,
    )
    return solution, made.model_copy(update={"predicted": predicted(made)})


def explained(p: Problem, algorithm: str = "ppo", **sections: Any) -> Explanation:
    return explain(p, *planned(p, algorithm, **sections))


def of(found: Explanation, limit: str, host: str | None = None) -> Marginal:
    (only,) = [each for each in found.marginal if each.limit == limit and host in (None, each.host)]
    return only


# -- made on purpose


def test_a_simulator_that_waits_is_named_with_its_times_and_the_way_out() -> None:
    slow = rates(actor=5_000.0, actor_cpu_s_per_step=1e-5)
    found = explained(one(2, rates=slow))
    assert found.bottleneck == Cause.SIMULATOR
    sentence = found.binds[0].sentence
    assert "a step of 64 environments takes 12.8 ms, of which 640 µs is computing" in sentence
    assert "--shape L1A8 --oversubscribe reaches about 30,000 samples/s (+500%)" in sentence


def test_more_actors_per_core_are_not_promised_where_memory_has_no_room_for_them() -> None:
    slow = rates(actor=5_000.0, actor_cpu_s_per_step=1e-5)
    found = explained(one(2, rates=slow, memory_bytes=700 * MIB))
    assert found.bottleneck == Cause.SIMULATOR
    assert "--oversubscribe" not in found.binds[0].sentence


def test_a_slow_learner_is_named() -> None:
    found = explained(one(4, rates=rates(learner=3_000.0)))
    assert found.bottleneck == Cause.LEARNER
    assert of(found, "learners").gain == pytest.approx(0.1, abs=1e-3)
    assert of(found, "actors").gain == 0.0
    assert found.idle["learner"] == 0.0
    assert found.idle["actor"] > 0.5


def test_actors_that_compute_all_the_time_are_named() -> None:
    found = explained(one(2, rates=rates(actor=1_000.0)))
    assert found.bottleneck == Cause.ACTORS
    assert "CPU time of the actor" in found.binds[0].sentence
    assert of(found, "actors").gain == pytest.approx(0.1, abs=1e-2)


def test_a_slow_link_is_named_with_its_ends_and_what_it_carries() -> None:
    nodes = node("cn01", 2, rates=rates(), mb_per_s=0.5), node("cn02", 8, (Role.ACTOR,), rates=rates(), mb_per_s=0.5)
    found = explained(problem(*nodes, learners=1, actors=4))
    assert found.bottleneck == Cause.NETWORK
    assert "cn02 → cn01 carries 0.5 MB/s, all of it used by fragments of 3 actors" in found.binds[0].sentence
    everywhere = next(each for each in found.marginal if "every network" in each.what)
    assert everywhere.gain > 0
    assert everywhere.what.startswith("0.05 MB/s more (10 %)")


def test_small_memory_is_named_with_its_host_and_what_fills_it() -> None:
    found = explained(one(16, rates=rates(), memory_bytes=1000 * MIB))
    assert found.bottleneck == Cause.MEMORY
    sentence = found.binds[0].sentence
    assert "the memory of n1: 0.76 GiB of 0.88 GiB that may be used are taken" in sentence
    assert "0.29 GiB by the run's programs themselves, and 8 cores stay empty" in sentence
    assert of(found, "memory", "n1").gain > 0.5


def test_a_tight_p_is_named_where_it_keeps_batches_small() -> None:
    tight = {"training": {"staleness_tolerance": 0.001}, "distributed": {"buffer_size": 20_000}}
    found = explained(one(4, rates=rates(learner=1_000.0)), "dqn", **tight)
    assert found.bottleneck == Cause.STALENESS
    sentence = found.binds[0].sentence
    assert "staleness_tolerance 0.001 × buffer_size 20,000 holds the batch at 20 samples (it would be 256)" in sentence
    assert "an update takes 20 ms" in sentence


def test_a_tight_p_that_costs_nothing_is_not_blamed() -> None:
    tight = {"training": {"staleness_tolerance": 0.001}, "distributed": {"buffer_size": 20_000}}
    found = explained(one(2, rates=rates(actor=100.0)), "dqn", **tight)
    assert found.bottleneck == Cause.ACTORS
    assert all(bind.cause != Cause.STALENESS for bind in found.binds)


def test_the_shape_asked_for_is_named_where_another_would_reach_more() -> None:
    found = explained(one(8, rates=rates(), learners=1, actors=2))
    assert found.bottleneck == Cause.SHAPE
    assert "L1A2 takes 4 of 8 cores; L3A5 would reach 80,000 samples/s (+100%)" in found.binds[0].sentence
    assert of(found, "shape").shape == "L3A5"


def test_the_elastic_range_is_named_where_it_is_too_narrow() -> None:
    found = explained(one(8, rates=rates(), most=Shape(1, 2)))
    assert found.bottleneck == Cause.ELASTIC
    assert "elastic.max L1A2" in found.binds[0].sentence


def test_cores_asked_for_a_learner_are_named() -> None:
    found = explained(one(8, rates=rates(), learner_cores=4))
    assert found.bottleneck == Cause.LEARNER_CORES


def test_slow_buffers_are_named() -> None:
    found = explained(one(2, rates=rates(receive_s_per_step=1e-3)))
    assert found.bottleneck == Cause.RECEIVER
    assert found.critical_path is not None
    assert not found.critical_path.hidden


def test_cores_are_named_where_all_are_taken_and_the_sides_are_balanced() -> None:
    found = explained(one(8, rates=rates()))
    assert found.bottleneck == Cause.CORES
    assert "all 8 are taken by the 3 learners and the 5 actors" in found.binds[0].sentence


def test_taking_turns_is_named() -> None:
    found = explained(one(2, rates=rates(), turns=True), training={"dependencies": "strict"})
    assert found.bottleneck == Cause.TURNS


# -- numbers


def test_gains_are_what_planning_for_such_machines_gives() -> None:
    found = explained(one(8, rates=rates()))
    _, larger = planned(one(9, rates=rates()))
    core = of(found, "core", "n1")
    assert larger.predicted.samples_per_s == pytest.approx(80_000 + core.samples_per_s)
    assert core.shape == larger.shape
    assert of(found, "node").gain == pytest.approx(1.0)
    assert of(found, "buffers").gain == 0.0
    assert [each.gain for each in found.marginal] == sorted((each.gain for each in found.marginal), reverse=True)


def test_nodes_that_are_alike_are_looked_at_once() -> None:
    found = explained(problem(*(node(f"cn0{i}", 4, rates=rates()) for i in range(1, 4))))
    assert of(found, "core").what == "one more core on cn01 (or one of 2 like it)"


def test_the_next_best_shape_is_the_best_of_the_others() -> None:
    p = one(6, rates=rates())
    solution, plan = planned(p)
    found = explain(p, solution, plan).next_best
    assert found is not None
    others = [
        made.predicted.samples_per_s or 0.0
        for learners in range(1, 4)
        for actors in range(learners, 6)
        if Shape(learners, actors) != solution.shape and learners + actors <= 6
        for _, made in [planned(replace(p, learners=learners, actors=actors))]
    ]
    assert found.samples_per_s == pytest.approx(max(others))


def test_the_critical_path_is_that_of_the_formula() -> None:
    path = explained(one(6, rates=rates(), learners=1, actors=2)).critical_path
    assert path is not None
    assert path.sample_s == pytest.approx(path.fragment_samples / 20_000.0)
    assert path.receive_s == pytest.approx(path.fragment_samples * 1e-6)
    assert path.train_s == pytest.approx(path.fragment_samples / (1.7 * 30_000.0))
    assert path.round_s == max(path.sample_s, 2 * path.receive_s)
    assert "T_round = max(T_sp, N_A·T_rv)" in str(path)


def test_without_measurements_there_are_no_numbers() -> None:
    p = one(4)
    found = explained(p)
    assert (found.binds, found.marginal, found.next_best) == ((), (), None)
    assert "nothing measured" in found.proof.words
    assert brief(p, *planned(p)) == ()


def test_a_plan_keeps_the_sentence_that_names_the_bottleneck() -> None:
    p = one(4, rates=rates(learner=3_000.0))
    (line,) = brief(p, *planned(p))
    assert line.startswith("what binds is the 2 learners on 1 core each")


def test_the_same_problem_is_explained_in_the_same_words() -> None:
    p = problem(node("a", 4, rates=rates()), node("b", 5, rates=rates(actor=9_000.0)))
    assert explained(p).model_dump_json() == explained(p).model_dump_json()


@pytest.mark.parametrize(("count", "size"), [(3, 16), (8, 40), (64, 64)])
def test_explaining_takes_seconds_at_most(count: int, size: int) -> None:
    """CPU time, so that what else the machine does is not counted."""
    p = problem(*(node(f"h{i}", size, rates=rates()) for i in range(count)))
    made = planned(p)
    began = time.process_time()
    explain(p, *made)
    assert time.process_time() - began < 15.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.0, "2 s"), (0.0023, "2.3 ms"), (0.00064, "640 µs"), (1.24e-6, "1.24 µs"), (0.5e-6, "0.5 µs")],
)
def test_times_have_the_unit_that_reads_best(seconds: float, text: str) -> None:
    assert time_of(seconds) == text


def test_where_sharing_cores_would_bring_more_the_shape_and_the_gain_are_told() -> None:
    """The learner binds and the actor waits most of its time: a second learner could have what it leaves."""
    p = one(2, rates=rates(actor=60_000.0, learner=20_000.0))
    found = explained(p).crowded
    assert found is not None
    assert found.shared
    learners, actors = Shape.parse(found.shape)
    _, made = planned(replace(p, learners=learners, actors=actors, oversubscribe=True))
    assert found.samples_per_s == pytest.approx(made.predicted.samples_per_s)
    assert found.gain == pytest.approx(found.samples_per_s / 20_000.0 - 1.0, abs=0.01)
    assert found.gain > 0.2


@pytest.mark.parametrize(
    "p",
    [
        one(2, rates=rates(actor=20_000.0, learner=20_000.0)),  # both cores are busy
        replace(one(2, rates=rates(actor=60_000.0, learner=20_000.0)), most=Shape(1, 1)),
        one(2, rates=rates(actor=5_000.0, actor_cpu_s_per_step=1e-5)),  # the sentence on the simulator says it
    ],
)
def test_sharing_cores_is_not_spoken_of_where_it_brings_nothing_or_is_not_allowed(p: Problem) -> None:
    assert explained(p).crowded is None
