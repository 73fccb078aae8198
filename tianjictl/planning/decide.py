"""Which counts: compares all there are where they are few, asks the solver where they are many."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tianjictl.planning.choice import Choice, Solution, fits, throughput
from tianjictl.planning.greedy import grow, smallest
from tianjictl.planning.infeasible import refuse_what_cannot_fit

if TYPE_CHECKING:
    from tianjictl.planning.problem import Problem


def is_open(problem: Problem) -> bool:
    """Whether a count is to be chosen and more than one shape fits, so that measured rates matter."""
    if problem.learners is not None and problem.actors is not None:
        return False
    alone = replace(problem, oversubscribe=False)
    start = smallest(alone)
    if not fits(alone, start):
        return False
    steps = [replace(start, actors=start.actors + 1)] if problem.actors is None else []
    if problem.learners is None:
        steps += [replace(start, learners=start.learners + 1)]
        if problem.actors is None:
            steps += [replace(start, learners=start.learners + 1, actors=max(start.actors, start.learners + 1))]
    return any(fits(alone, step) for step in steps)


def decide(problem: Problem) -> Solution:
    """The best counts for the problem; raises Infeasible where none fit.

    Cores are shared only where the request does not fit otherwise: a count left to choose never makes them shared.
    """
    refuse_what_cannot_fit(problem)
    if not is_open(problem):
        return _of_one_shape(problem)
    alone = replace(problem, oversubscribe=False)
    hint = grow(alone)
    if problem.rates is None:
        return Solution(hint or smallest(problem), "greedy (nothing measured)")
    from tianjictl.planning.solver import solve

    solution = solve(alone, problem.rates, hint)
    return solution or Solution(hint or smallest(problem), "greedy")


def _of_one_shape(problem: Problem) -> Solution:
    """The counts stand; only the learners' cores may still differ, and those few are compared one by one."""
    start = smallest(problem)
    candidates = [replace(start, learner_cores=cores) for cores in problem.learner_core_choices()]
    alone = replace(problem, oversubscribe=False)
    fitting = [choice for choice in candidates if fits(alone, choice)] or [start]
    rates = problem.rates
    if rates is None or len(fitting) == 1:
        return Solution(fitting[0], _why_alone(problem, alone, start))

    def merit(choice: Choice) -> tuple[float, int]:
        return throughput(problem, choice, rates).balanced, -choice.cores

    return Solution(max(fitting, key=merit), f"optimal (all {len(fitting)} core counts compared)")


def _why_alone(problem: Problem, alone: Problem, start: Choice) -> str:
    """Say `optimal` only where nothing else is possible."""
    wider = replace(start, learner_cores=start.learner_cores + 1)
    if problem.learner_cores is None and problem.rates is None and fits(alone, wider):
        return "one core per learner (nothing measured)"
    if problem.learners is None or problem.actors is None:
        return "optimal (the only shape that fits)"
    return "optimal (the only placement of this shape)"
