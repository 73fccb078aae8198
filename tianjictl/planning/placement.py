"""Counts become components: groups to nodes, actors to groups, everything to cores. One way for one node and for many.

A group's actors are on its own node while that has any; groups that lack some are given those of the first nodes that
have more than their own groups need. Groups with an actor more have the first numbers, as `Shape.actors_of_group` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runtime.contract.plan import Placement
from runtime.contract.states import Role
from tianjictl.planning.pinning import oversubscription, pin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tianjictl.planning.node import Node
    from tianjictl.planning.problem import Problem
    from tianjictl.planning.solution import Solution

_BUFFER = 0.25  #: share of a core that a buffer is charged where nothing was measured
_LEAST = 0.01  #: of a core: a share is more than none
_ORDER = (Role.LEARNER, Role.BUFFER, Role.ACTOR, Role.EVALUATOR)


class Placed(NamedTuple):
    """Every component in the order learners, buffers, actors, evaluator, and how far each node is oversubscribed."""

    components: tuple[Placement, ...]
    oversubscription: tuple[float, ...]


def place(problem: Problem, solution: Solution) -> Placed:
    """Every component of the run with its cores and share."""
    homes, loose = homes_of(solution), list(_loose(problem, solution))
    if problem.evaluator_node is not None:
        host = problem.nodes[problem.evaluator_node]
        group = homes.index(problem.evaluator_node) if problem.evaluator_node in homes else 0
        loose.append(_component(Role.EVALUATOR, 0, group, host, problem.charges.evaluator))
    placed: list[Placement] = []
    crowded = []
    for index, node in enumerate(problem.nodes):
        mine, standing = [p for p in loose if p.host == node.name], problem.standing(index)
        placed += pin(node, mine, standing)
        crowded.append(oversubscription(node, mine, standing))
    placed.sort(key=lambda p: (_ORDER.index(p.role), p.index))
    return Placed(tuple(placed), tuple(crowded))


def homes_of(solution: Solution) -> list[int]:
    """The node of each group: first the larger groups, node by node, then the others."""
    larger = [index for index, counts in enumerate(solution.nodes) for _ in range(counts.larger)]
    others = [index for index, counts in enumerate(solution.nodes) for _ in range(counts.learners - counts.larger)]
    return larger + others


def hosts_of_actors(solution: Solution) -> list[list[int]]:
    """For each group the nodes of its actors, its own first."""
    homes, shape = homes_of(solution), solution.shape
    free = [counts.actors for counts in solution.nodes]
    given: list[list[int]] = []
    for group, home in enumerate(homes):
        near = min(free[home], shape.actors_of_group(group))
        free[home] -= near
        given.append([home] * near)
    for group, nodes in enumerate(given):
        for index in range(len(free)):
            more = min(free[index], shape.actors_of_group(group) - len(nodes))
            free[index] -= more
            nodes += [index] * more
    return given


def buffer_share(problem: Problem, solution: Solution, node: Node) -> float:
    """Share of a core that a buffer of one node needs at most, from its cost per step."""
    if not problem.measured:
        return _BUFFER
    rates = problem.rates(node)
    fastest = max(problem.rates(other).actor_steps_per_s for other in problem.nodes if other.may(Role.ACTOR))
    taken = rates.learner_on(solution.learner_cores).samples_per_s / problem.ratio
    flow = min(taken, (solution.least_group + 1) * fastest)
    return round(min(1.0, max(_LEAST, flow * rates.buffer_cpu_s_per_step)), 6)


def _loose(problem: Problem, solution: Solution) -> Iterator[Placement]:
    """Learners, buffers and actors with their hosts and full charges, not yet on cores."""
    nodes, cores = problem.nodes, solution.learner_cores
    shares = [buffer_share(problem, solution, node) for node in nodes]
    for group, home in enumerate(homes_of(solution)):
        yield _component(Role.LEARNER, group, group, nodes[home], float(cores), threads=cores)
        yield _component(Role.BUFFER, group, group, nodes[home], shares[home])
    dealt = [(group, index) for group, hosts in enumerate(hosts_of_actors(solution)) for index in hosts]
    for number, (group, index) in enumerate(dealt):
        yield _component(Role.ACTOR, number, group, nodes[index], 1.0)


def _component(role: Role, index: int, group: int, node: Node, share: float, threads: int = 1) -> Placement:
    return Placement(
        name=f"{role}-{index}",
        role=role,
        index=index,
        group=group,
        host=node.name,
        cores=(),
        core_share=share,
        threads=threads,
    )
