"""Why nothing fits, and what would: the smallest set of limits that conflict, and the nearest request that fits.

A limit belongs to the conflict if the request would fit without it. Limits are left out one after the other while the
rest still conflicts (a deletion filter: Chinneck and Dravnieks, 1991); what stays is a conflict without which there is
none, or another one, which is then found in the same way.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from runtime.contract.drafting import MOST_PER_CORE
from runtime.contract.forecast import Charges
from runtime.contract.shape import Shape
from tianjictl.errors import Infeasible
from tianjictl.planning import conflict_words as words
from tianjictl.planning.problem import MemoryNeeds
from tianjictl.planning.room import fits, most_actors
from tianjictl.planning.terms import terms_of
from tianjictl.profiling.facts.cpus import Core

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.states import Role
    from tianjictl.planning.node import Node
    from tianjictl.planning.problem import Problem


class Limit(StrEnum):
    """What a request may break, in the order in which it is left out to find a conflict: the telling ones last."""

    RANGE = "elastic range"
    QUOTA = "quota"
    NUMA = "NUMA"
    MEMORY = "memory"
    ROLES = "roles"
    HOST = "one host"
    CORES = "cores"


def refuse_what_cannot_fit(problem: Problem) -> None:
    """Raise Infeasible where even the fewest components the request allows do not fit."""
    if not feasible(problem):
        raise infeasible(problem)


def feasible(problem: Problem) -> bool:
    """Whether the request fits, on shared cores where it allows that."""
    return fits(_crowded(problem)) if problem.oversubscribe else fits(problem)


def infeasible(problem: Problem) -> Infeasible:
    """What conflicts, as an error: the first conflict, others, and what each of several nodes has."""
    found = [words.of_conflict(problem, conflict) for conflict in conflicts(problem)]
    found += words.of_counts(problem)
    found = found or [f"{problem.smallest} does not fit {problem.where}"]
    details = (*found[1:], *(words.of_node(node) for node in problem.nodes if len(problem.nodes) > 1))
    return Infeasible(found[0], hint=_hint(problem), details=details)


def conflicts(problem: Problem) -> list[frozenset[Limit]]:
    """Smallest sets of limits that cannot hold together for the request; no limit is in two of them."""
    found: list[frozenset[Limit]] = []
    left = _within_sight(problem)
    while not feasible(left) and len(found) < len(Limit):
        conflict = _filtered(left)
        if not conflict:
            break
        found.append(conflict)
        for limit in conflict:
            left = _RELAXED[limit](left)
    return found


def nearest_shape(problem: Problem) -> Shape | None:
    """The largest shape within the request that fits: the learners asked for if possible, then as many actors.

    None where not even one learner with one actor does.
    """
    asked = problem.smallest
    free = replace(problem, learners=None, actors=None, least=None, most=None)
    terms = terms_of(_crowded(free) if problem.oversubscribe else free, problem.learner_core_choices()[0])
    low, high = 0, min(asked.learners, sum(term.learner_counts[-1] for term in terms))
    while low < high:
        middle = (low + high + 1) // 2
        room = most_actors(terms, middle)
        low, high = (middle, high) if room is not None and room >= middle else (low, middle - 1)
    room = most_actors(terms, low) if low else None
    return None if room is None else Shape(low, max(low, min(asked.actors, room)))


def _filtered(problem: Problem) -> frozenset[Limit]:
    kept = []
    left = problem
    for limit in Limit:
        without = _RELAXED[limit](left)
        if feasible(without):
            kept.append(limit)
        else:
            left = without
    return frozenset(kept)


def _hint(problem: Problem) -> str:
    shape = nearest_shape(problem)
    ways = []
    if shape is not None:
        ways.append(f"the nearest shape that fits is {shape}: --shape {shape}")
    if not problem.oversubscribe and feasible(replace(problem, oversubscribe=True)):
        ways.append("--oversubscribe lets components share cores")
    if not ways:
        return "a machine with more cores or memory is needed, or a smaller distributed.buffer_size"
    return "; or ".join(ways)


def _within_sight(problem: Problem) -> Problem:
    """The smallest request; absurd counts are cut to what breaks every limit as well."""
    asked, needs = problem.smallest, problem.memory
    by_memory = sum(node.usable_memory for node in problem.nodes) // min(needs.learner, needs.actor)
    most = max(problem.num_cores * MOST_PER_CORE, by_memory) + 1
    if problem.allows(*asked):
        asked = Shape(min(asked.learners, most), min(asked.actors, most))
    return replace(problem, learners=asked.learners, actors=asked.actors)


# -- the same problem without one of its limits


def _crowded(problem: Problem) -> Problem:
    """As many cores as components may share."""
    nodes = tuple(
        replace(node, cores=node.cores * MOST_PER_CORE, capacity=float(len(node.cores) * MOST_PER_CORE))
        for node in problem.nodes
    )
    return replace(problem, nodes=nodes)


def _without_range(problem: Problem) -> Problem:
    return replace(problem, least=None, most=None)


def _without_quota(problem: Problem) -> Problem:
    nodes = tuple(replace(node, capacity=float(len(node.cores))) for node in problem.nodes)
    return replace(problem, nodes=nodes, charges=Charges.none())


def _without_numa(problem: Problem) -> Problem:
    nodes = tuple(
        replace(node, cores=tuple(core.model_copy(update={"numa": 0}) for core in node.cores)) for node in problem.nodes
    )
    return replace(problem, nodes=nodes)


def _without_memory(problem: Problem) -> Problem:
    return replace(problem, memory=MemoryNeeds(actor=1, learner=1, once=0))


def _without_roles(problem: Problem) -> Problem:
    return replace(problem, nodes=tuple(replace(node, roles=()) for node in problem.nodes))


def _in_one_host(problem: Problem) -> Problem:
    """All nodes of the same roles as one; their NUMA domains stay apart."""
    merged: dict[tuple[Role, ...], Node] = {}
    for index, node in enumerate(problem.nodes):
        cores = tuple(core.model_copy(update={"numa": (index << 16) + core.numa}) for core in node.cores)
        one = merged.get(node.roles)
        merged[node.roles] = replace(
            node,
            cores=cores if one is None else (*one.cores, *cores),
            capacity=node.capacity + (0.0 if one is None else one.capacity),
            memory_bytes=node.memory_bytes + (0 if one is None else one.memory_bytes),
        )
    return replace(problem, nodes=tuple(merged.values()))


def _with_cores(problem: Problem) -> Problem:
    """Enough cores on every node that has any."""
    wanted, each = problem.smallest, problem.learner_core_choices()[0]
    needed = wanted.learners * each + wanted.actors + 1
    more = (Core(cpu=0),) * (needed // MOST_PER_CORE + 1 if problem.oversubscribe else needed)
    nodes = tuple(
        replace(node, cores=(*node.cores, *more), capacity=node.capacity + len(more)) for node in problem.nodes
    )
    return replace(problem, nodes=nodes)


_RELAXED: dict[Limit, Callable[[Problem], Problem]] = {
    Limit.RANGE: _without_range,
    Limit.QUOTA: _without_quota,
    Limit.NUMA: _without_numa,
    Limit.MEMORY: _without_memory,
    Limit.ROLES: _without_roles,
    Limit.HOST: _in_one_host,
    Limit.CORES: _with_cores,
}
