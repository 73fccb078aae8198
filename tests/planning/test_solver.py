"""The solver against exhaustive search with its own arithmetic."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from planning_problems import cores, problem, rates

from runtime.contract.shape import Shape
from tianjictl.errors import Infeasible
from tianjictl.planning.choice import Choice, throughput
from tianjictl.planning.decide import decide, is_open
from tianjictl.planning.greedy import grow
from tianjictl.planning.problem import MemoryNeeds, Problem, Rates

_ALIKE = 1e-5


def objective(p: Problem, g: int, c: int, n: int) -> float:
    """min(T_RL, T_RA) written out anew, straight from the definition."""
    r = p.rates
    assert r is not None
    curve = dict(r.learner_samples_per_s)
    light = 0.1 + (0.25 if p.evaluator else 0.0)
    time_left = p.host.capacity - g * c - light
    by_cores = time_left / (1 / r.actor_steps_per_s + r.buffer_s_per_step)
    steps = min(n * r.actor_steps_per_s, by_cores, g / r.buffer_s_per_step if r.buffer_s_per_step else float("inf"))
    return min(g * curve[c], p.trained_per_step * steps)


def all_choices(p: Problem) -> list[tuple[float, int, int, int, int]]:
    """Every (objective, cores, learners, actors, learner cores) that respects the limits."""
    assert p.rates is not None
    m, found = len(p.host.cores), []
    for c, _ in p.rates.learner_samples_per_s:
        if p.learner_cores not in (None, c):
            continue
        for g in range(1, m + 1):
            for n in range(g, m + 1):
                memory = p.memory.once + g * p.memory.learner + n * p.memory.actor
                if (
                    p.learners not in (None, g)
                    or p.actors not in (None, n)
                    or g * c + n > m
                    or memory > int(p.host.memory_bytes * 0.9)
                    or (p.least is not None and (g < p.least.learners or n < p.least.actors))
                    or (p.most is not None and (g > p.most.learners or n > p.most.actors))
                ):
                    continue
                found.append((objective(p, g, c, n), g * c + n, g, n, c))
    return found


def random_problem(seed: int) -> Problem:
    rng = random.Random(seed)
    actor = 10 ** rng.uniform(1, 6)
    learner = 10 ** rng.uniform(1, 6)
    points = [1, *sorted(rng.sample([2, 3, 4, 8], rng.randint(0, 3)))]
    curve = tuple((c, learner * c ** rng.uniform(0.2, 1.0)) for c in points)
    made = problem(
        cores=cores(rng.randint(2, 12), nodes=rng.randint(1, 2)),
        rates=Rates(actor, curve, rng.choice([0.0, 1e-7, 0.02 / actor, 0.5 / actor])),
        trained_per_step=rng.choice([1.0, 1.0, 8.0, 0.25]),
        evaluator=rng.random() < 0.3,
        memory=MemoryNeeds(actor=100, learner=300, once=200),
        memory_bytes=rng.choice([10**6, 10**6, 1500, 900]),
        learners=rng.choice([None, None, None, 1, 2]),
        learner_cores=rng.choice([None, None, rng.choice(points)]),
        most=rng.choice([None, None, Shape(2, 6)]),
        least=rng.choice([None, None, None, Shape(1, 2)]),
    )
    return replace(made, actors=rng.choice([None, None, None, made.learners or 1, 4]))


@pytest.mark.parametrize("block", range(6))
def test_random_instances_are_solved_as_exhaustive_search_solves_them(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        p = random_problem(seed)
        every = all_choices(p)
        if not every:
            with pytest.raises(Infeasible):
                decide(p)
            continue
        solution = decide(p)
        choice = solution.choice
        mine = objective(p, choice.learners, choice.learner_cores, choice.actors)
        best = max(entry[0] for entry in every)
        fewest = min(entry[1] for entry in every if entry[0] >= best * (1 - _ALIKE * 0.01))
        assert mine >= best * (1 - _ALIKE), f"seed {seed}: {choice} gives {mine}, {best} is possible"
        assert choice.cores <= fewest, f"seed {seed}: {choice} uses {choice.cores} cores, {fewest} are enough"
        assert solution.proof.startswith("optimal"), f"seed {seed}: {solution.proof}"


def test_greedy_is_a_feasible_hint_that_is_often_right() -> None:
    right = 0
    for seed in range(60):
        p = random_problem(seed)
        every, hint = all_choices(p), grow(p)
        if not every or hint is None:
            continue
        best = max(entry[0] for entry in every)
        mine = objective(p, hint.learners, hint.learner_cores, hint.actors)
        assert mine <= best * (1 + 1e-9)
        assert (mine, hint.cores, hint.learners, hint.actors, hint.learner_cores) in every
        right += mine >= best * (1 - _ALIKE)
    assert right >= 30


def test_linear_rates_reproduce_the_closed_form() -> None:
    """M_A = M·r_L/(r_L+r_A): 3000 per learner core and 1000 per actor core divide 16 cores 4 to 12."""
    linear = Rates(1_000.0, tuple((c, 3_000.0 * c) for c in (1, 2, 4, 8)), 0.0)
    p = problem(16, rates=linear)
    charges = replace(p.charges, node=0.0)
    choice = decide(replace(p, charges=charges)).choice
    assert choice.learners * choice.learner_cores == 4
    assert choice.actors == 12
    assert throughput(replace(p, charges=charges), choice, linear).balanced == pytest.approx(12_000)


def test_no_cores_are_wasted_on_what_cannot_help() -> None:
    p = problem(32, rates=rates(actor=1e6, learner=1_000.0), learners=1, learner_cores=1)
    assert decide(p).choice == Choice(learners=1, learner_cores=1, actors=1)


def test_only_open_shapes_need_measuring() -> None:
    assert not is_open(problem(2))
    assert is_open(problem(3))
    assert not is_open(problem(64, learners=1, actors=2))
    assert not is_open(problem(3, most=Shape(1, 1)))


def test_a_free_shape_without_rates_says_that_nothing_was_measured() -> None:
    solution = decide(problem(16))
    assert solution.proof == "greedy (nothing measured)"
    assert solution.choice.cores <= 16


def test_the_share_of_agent_and_coordinator_is_taken_from_the_actors_time() -> None:
    """A second learner core would give 990, were it not that the one actor left has only 0.9 of its core: 900."""
    p = problem(3, rates=Rates(1_000.0, ((1, 950.0), (2, 990.0)), 0.0))
    assert decide(p).choice == Choice(learners=1, learner_cores=1, actors=1)
