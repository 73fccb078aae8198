"""Refusals: the smallest set of limits that conflict, in words with numbers, and the nearest request that fits."""

from __future__ import annotations

import re
from typing import Any

import pytest
from planning_problems import MIB, cores, node, one, problem

from runtime.contract.shape import Shape
from runtime.contract.states import Role
from tianjictl.planning.infeasible import Limit, conflicts, feasible, infeasible, nearest_shape
from tianjictl.planning.problem import Problem

LEARNERS = (Role.LEARNER, Role.BUFFER)
ACTORS = (Role.ACTOR,)

DOMAINS_OF_4_2_2 = tuple(core.model_copy(update={"numa": max(0, core.cpu // 2 - 1)}) for core in cores(8))
THREE_WIDE: dict[str, Any] = {"learners": 2, "actors": 2, "learner_cores": 3}
CASES: dict[str, tuple[Problem, list[set[Limit]], str, str | None]] = {
    "too few cores": (one(2, learners=2, actors=4), [{Limit.CORES}], "needs 6 cores .* n1 has 2 usable", "L1A1"),
    "too little memory": (
        one(16, learners=1, actors=8, memory_bytes=800 * MIB),
        [{Limit.MEMORY}],
        "L1A8 needs about 1.01 GiB of memory; n1 allows 0.70 GiB",
        "L1A3",
    ),
    "both, each on its own": (
        one(2, learners=1, actors=8, memory_bytes=800 * MIB),
        [{Limit.CORES}, {Limit.MEMORY}],
        "needs 9 cores",
        "L1A1",
    ),
    "a learner wider than any host": (
        problem(node("a", 2), node("b", 2), learners=1, actors=1, learner_cores=3),
        [{Limit.HOST, Limit.CORES}],
        "1 learners of 3 cores inside one host each",
        None,
    ),
    "roles that leave too few places": (
        problem(node("gpu", 2, LEARNERS), node("cn", 8, ACTORS), learners=3, actors=6),
        [{Limit.ROLES, Limit.CORES}],
        r"only gpu \(2\) may hold learners, 2 of them",
        "L2A6",
    ),
    "fewer actors than learners": (one(6, learners=2, actors=1), [], "each learner needs at least one actor", "L2A2"),
    "a NUMA domain that cannot hold what the host could": (
        one(cores=DOMAINS_OF_4_2_2, **THREE_WIDE),
        [{Limit.NUMA, Limit.CORES}],
        r"2 learners of 3 cores inside one NUMA domain each; only n1 \(8\) may hold learners, 1 of them",
        "L1A2",
    ),
    "a quota below one core": (
        one(2, learners=1, actors=1, capacity=0.9),
        [{Limit.QUOTA, Limit.CORES}],
        "a quota leaves CPU time of n1 0.9",
        None,
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_the_conflict_is_the_smallest_and_the_nearest_request_fits(what: str) -> None:
    p, sets, words, nearest = CASES[what]
    assert not feasible(p)
    assert [set(conflict) for conflict in conflicts(p)] == sets
    error = infeasible(p)
    assert re.search(words, error.message), error.message
    shape = nearest_shape(p)
    assert (None if shape is None else str(shape)) == nearest
    if shape is not None:
        assert f"--shape {shape}" in str(error.hint)
        assert feasible(_asking(p, shape))
        more = [Shape(shape.learners, shape.actors + 1)] if shape.actors < (p.actors or 0) else []
        assert not any(feasible(_asking(p, other)) for other in more)


def _asking(p: Problem, shape: Shape) -> Problem:
    changes: dict[str, Any] = {"learners": shape.learners, "actors": shape.actors, "least": None, "most": None}
    return Problem(**{name: changes.get(name, getattr(p, name)) for name in p.__dataclass_fields__})
