"""Recipes: cores of a learner and actors of a group, each with a throughput that no placement of it can exceed.

With a recipe fixed the model of `solver.py` is linear. Recipes come in the order of their bounds, so that the search
can end at the first whose bound is no better than what was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from tianjictl.planning.solution import ALIKE
from tianjictl.planning.terms import fastest_actor, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tianjictl.planning.problem import Problem
    from tianjictl.planning.solution import Counts
    from tianjictl.planning.terms import Terms


class Weights(NamedTuple):
    """What the goals after throughput weigh: each is worth more than all that come after it."""

    crossing: int  #: of a thousandth of the fastest actor's steps that goes to another node
    cores: int

    def of(self, crossing: Any, cores: Any, learners: Any) -> Any:
        """Numbers, or expressions of a model."""
        return self.crossing * crossing + self.cores * cores + learners


@dataclass(frozen=True, slots=True)
class Recipe:
    """Groups of `each` or `each + 1` actors, at least one of `each`; every learner has `learner_cores`."""

    terms: tuple[Terms, ...]
    learner_cores: int
    each: int
    learners: tuple[int, int]  #: fewest and most
    actors: tuple[int, int]
    group_rate: float  #: steps/s of a group at its best
    bound: float  #: steps/s

    def crossing_weight(self, node: int) -> int:
        """Steps of one of a node's actors, in thousandths of the fastest actor's."""
        return round(1000 * self.terms[node].actor_rate / fastest_actor(self.terms))

    def thrift(self, weights: Weights, counts: Sequence[Counts]) -> int:
        """What is to be the least of all placements that reach as much."""
        learners, actors = sum(c.learners for c in counts), sum(c.actors for c in counts)
        crossing = sum(
            self.crossing_weight(index) * max(0, c.actors - c.learners * self.each - c.larger)
            for index, c in enumerate(counts)
        )
        return int(weights.of(crossing, learners * self.learner_cores + actors, learners))

    def least_thrift(self, weights: Weights, steps: float) -> int:
        """No placement of this recipe that reaches so many steps per second has a lower one."""
        groups, cores = self._fewest_cores(steps)
        homes = [term for term in self.terms if term.learner_counts[-1]]
        at_home = max(term.actors_beside(term.learner_counts[1]) for term in homes)
        lightest = min(self.crossing_weight(index) for index, term in enumerate(self.terms) if term.acts)
        return int(weights.of(groups * max(0, self.each - at_home) * lightest, cores, groups))

    def _fewest_cores(self, steps: float) -> tuple[int, int]:
        """(groups, cores) that reaching so many steps per second takes at least."""
        groups = max(self.learners[0], ceil(steps / self.group_rate * (1.0 - ALIKE))) if self.group_rate > 0 else 1
        return groups, groups * self.learner_cores + max(self.actors[0], groups * self.each)


def recipes(problem: Problem) -> list[Recipe]:
    """All that the request allows, the most promising first."""
    found = [recipe for cores in problem.learner_core_choices() for recipe in _of(problem, cores)]
    return sorted(found, key=lambda recipe: (-recipe.bound, recipe.learner_cores, recipe.each))


def _of(problem: Problem, cores: int) -> Iterator[Recipe]:
    terms = terms_of(problem, cores)
    least, most = problem.least, problem.most
    places = sum(each.learner_counts[-1] for each in terms)
    room = sum(each.actors_beside(0) for each in terms)
    learners = _range(problem.learners, least.learners if least else 1, most.learners if most else places, places)
    actors = _range(problem.actors, least.actors if least else 1, most.actors if most else room, room)
    if learners[0] > learners[1] or actors[0] > actors[1]:
        return
    fastest = fastest_actor(terms)
    one = max((term.group_rate for term in terms if term.learner_counts[-1]), default=0.0)
    together = sum(term.cores for term in terms if term.acts or term.learner_counts[-1])
    for each in range(max(1, actors[0] // learners[1]), actors[1] // learners[0] + 1):
        if (each + 1) * learners[1] <= actors[0]:
            continue
        # Groups of both sizes together are worth no more per core than those of the better size alone.
        by_cores = together * max(min(one, size * fastest) / (cores + size) for size in (each, each + 1))
        group_rate = min(one, (each + 1) * fastest)
        bound = min(learners[1] * group_rate, actors[1] * min(fastest, one / each), by_cores)
        yield Recipe(terms, cores, each, learners, actors, group_rate, bound)


def _range(fixed: int | None, least: int, most: int, room: int) -> tuple[int, int]:
    return (fixed, min(fixed, room)) if fixed is not None else (least, min(most, room))
