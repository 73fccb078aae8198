"""A request that does not fit: components share cores, dealt to the nodes by load. By rule, without the solver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.drafting import MOST_PER_CORE
from runtime.contract.states import Role
from tianjictl.planning.solution import Counts, Solution

if TYPE_CHECKING:
    from tianjictl.planning.node import Node
    from tianjictl.planning.problem import Problem


def share_cores(problem: Problem) -> Solution | None:
    """The fewest components that the request allows, on cores that they share; None where even that is too much.

    A learner goes where fewest learners are for each core, the head first; an actor where the load is least.
    """
    wanted = problem.smallest
    cores = problem.learner_core_choices()[0]
    if not problem.allows(*wanted) or wanted.learners * cores + wanted.actors > problem.num_cores * MOST_PER_CORE:
        return None
    loads = [_Load(problem, node) for node in problem.nodes]
    for _ in range(wanted.learners):
        able = [load for load in loads if load.takes_learner(cores)]
        if not able:
            return None
        min(able, key=lambda load: load.learners * cores / load.size).learners += 1
    each, larger = divmod(wanted.actors, wanted.learners)
    for load in loads:
        load.larger = min(load.learners, larger)
        larger -= load.larger
    _place_actors(loads, cores, each, wanted.actors)
    if sum(load.actors for load in loads) < wanted.actors:
        return None
    counts = tuple(Counts(load.learners, load.larger, load.actors) for load in loads)
    return Solution(counts, cores, value=0.0, bound=0.0, proof="by rule (cores are shared)", shared=True)


def _place_actors(loads: list[_Load], cores: int, each: int, total: int) -> None:
    """One by one to the least loaded node; of two alike to that whose groups still want some."""
    for _ in range(total):
        able = [load for load in loads if load.takes_actor(cores)]
        if not able:
            return

        def burden(load: _Load) -> tuple[float, bool]:
            whole = load.learners * cores + load.actors
            return max(1.0, (whole + 1) / load.size), load.actors >= load.learners * each + load.larger

        min(able, key=burden).actors += 1


class _Load:
    """What one node has been given."""

    def __init__(self, problem: Problem, node: Node) -> None:
        self._problem = problem
        self._node = node
        self.size = max(1, len(node.cores))
        self.learners = 0
        self.larger = 0
        self.actors = 0

    def takes_learner(self, cores: int) -> bool:
        return (
            self._node.may(Role.LEARNER)
            and cores <= len(self._node.cores)
            and (self.learners + 1) * cores + self.actors <= self.size * MOST_PER_CORE
            and self._fits(self.learners + 1, self.actors)
        )

    def takes_actor(self, cores: int) -> bool:
        return (
            self._node.may(Role.ACTOR)
            and bool(self._node.cores)
            and self.learners * cores + self.actors < self.size * MOST_PER_CORE
            and self._fits(self.learners, self.actors + 1)
        )

    def _fits(self, learners: int, actors: int) -> bool:
        return self._problem.memory.of(learners, actors) <= self._node.usable_memory
