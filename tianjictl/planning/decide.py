"""Which counts go to which node: the one entry to the planner's arithmetic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tianjictl.planning.alone import solve_alone
from tianjictl.planning.room import fits
from tianjictl.planning.sharing import share_cores

if TYPE_CHECKING:
    from tianjictl.planning.problem import Problem
    from tianjictl.planning.solution import Solution


def solve(problem: Problem, *, effort: float = 1.0) -> Solution | None:
    """The best counts for the problem; None where none fit. `effort`: of the time that it may take over many nodes.

    Cores are shared only where the request does not fit otherwise: a count left to choose never makes them shared.
    """
    if not fits(problem):
        return share_cores(problem) if problem.oversubscribe else None
    if len(problem.nodes) == 1:
        found = solve_alone(problem)
    else:
        from tianjictl.planning.search import solve_over

        found = solve_over(problem, effort)
    if found is not None and not problem.measured:
        return replace(found, proof=f"{found.proof} for usual rates (nothing measured)")
    return found


def is_open(problem: Problem) -> bool:
    """Whether a count is to be chosen and more than one shape fits, so that measured rates matter."""
    if not fits(problem):
        return False
    least = problem.smallest
    more = [least._replace(actors=least.actors + 1)]
    more += [least._replace(learners=least.learners + 1, actors=max(least.actors, least.learners + 1))]
    return any(
        problem.allows(*shape) and fits(replace(problem, learners=shape.learners, actors=shape.actors))
        for shape in more
    )
