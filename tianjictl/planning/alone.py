"""The best counts on a single node, by comparing all that matter. Exact and instant; needs no solver.

With a given number of learners, each with given cores, more actors never reach less. So the best throughput is found
with the most actors everywhere, and then as few of them as still reach it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tianjictl.planning.flows import steps_per_s
from tianjictl.planning.solution import ALIKE, Counts, Solution
from tianjictl.planning.terms import terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tianjictl.planning.problem import Problem
    from tianjictl.planning.terms import Terms


class _Option(NamedTuple):
    """Learners with so many cores, and how many actors may be beside them."""

    terms: Terms
    learners: int
    fewest: int
    most: int

    def reaches(self, actors: int) -> float:
        return steps_per_s((self.terms,), (Counts(self.learners, actors % self.learners, actors),))

    def fewest_that_reach(self, steps: float) -> int:
        """By bisection: the most do."""
        low, high = self.fewest, self.most
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.reaches(middle) >= steps else (middle + 1, high)
        return low


def solve_alone(problem: Problem) -> Solution | None:
    """The best counts of a problem with one node; None where none fit."""
    options = list(_options(problem))
    if not options:
        return None
    best = max(option.reaches(option.most) for option in options)
    enough = best * (1.0 - ALIKE)
    found: list[tuple[tuple[int, int, int], _Option]] = []
    for option in options:
        if option.reaches(option.most) >= enough:
            actors = option.fewest_that_reach(enough)
            cores = option.learners * option.terms.learner_cores + actors
            found.append(((cores, option.learners, actors), option))
    (_, learners, actors), option = min(found, key=lambda entry: entry[0])
    return Solution(
        nodes=(Counts(learners, actors % learners, actors),),
        learner_cores=option.terms.learner_cores,
        value=option.reaches(actors) * problem.ratio,
        bound=best * problem.ratio,
        proof="optimal",
    )


def _options(problem: Problem) -> Iterator[_Option]:
    for cores in problem.learner_core_choices():
        (terms,) = terms_of(problem, cores)
        for learners in terms.learner_counts[1:]:
            least = problem.least.actors if problem.least is not None else 1
            fewest = problem.actors if problem.actors is not None else max(learners, least)
            most = min(terms.actors_beside(learners), problem.actors or terms.cores)
            if problem.most is not None:
                most = min(most, problem.most.actors)
            if fewest <= most and problem.allows(learners, fewest):
                yield _Option(terms, learners, fewest, most)
