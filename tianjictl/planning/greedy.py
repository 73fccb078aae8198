"""A good plan at once: grow whichever side is short of the other. Hint and fallback for the solver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.planning.choice import Choice, fits, throughput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tianjictl.planning.problem import Problem, Rates

_ACTORS_PER_LEARNER = 4  #: the published series L1A4, L2A8, …; used only where nothing was measured


def smallest(problem: Problem) -> Choice:
    """The fewest components that the problem allows; it need not fit."""
    least_learners = problem.least.learners if problem.least else 1
    least_actors = problem.least.actors if problem.least else 1
    learners = problem.learners if problem.learners is not None else least_learners
    actors = problem.actors if problem.actors is not None else max(least_actors, learners)
    return Choice(learners=learners, learner_cores=problem.learner_core_choices()[0], actors=actors)


def grow(problem: Problem) -> Choice | None:
    """Start small and take the step that helps most, until none helps; None where even the smallest does not fit."""
    best = smallest(problem)
    if not fits(problem, best):
        return None
    if problem.rates is None:
        return _unmeasured(problem, best)
    while True:
        steps = [choice for choice in _steps(problem, best) if fits(problem, choice)]
        better = max(steps, key=lambda choice: _merit(problem, choice, problem.rates), default=best)  # type: ignore[arg-type]
        if _merit(problem, better, problem.rates) <= _merit(problem, best, problem.rates):
            return best
        best = better


def _merit(problem: Problem, choice: Choice, rates: Rates) -> tuple[float, int, int, int]:
    """More throughput, then fewer cores, fewer learners, fewer actors."""
    return throughput(problem, choice, rates).balanced, -choice.cores, -choice.learners, -choice.actors


def _steps(problem: Problem, at: Choice) -> Iterator[Choice]:
    wider = [count for count in problem.learner_core_choices() if count > at.learner_cores][:1]
    for more_learners, more_actors in ((0, 1), (1, 0), (1, 1), (1, 2), (0, 2)):
        if (more_learners and problem.learners is not None) or (more_actors and problem.actors is not None):
            continue
        yield Choice(at.learners + more_learners, at.learner_cores, at.actors + more_actors)
    for cores in wider:
        yield Choice(at.learners, cores, at.actors)
        if problem.actors is None:
            yield Choice(at.learners, cores, at.actors + 1)


def _unmeasured(problem: Problem, start: Choice) -> Choice:
    """Without rates: learners in the published proportion to actors, as many actors as fit."""
    best = start
    for learners in range(start.learners, problem.num_cores + 1):
        if problem.learners is not None and learners != problem.learners:
            break
        for actors in range(max(start.actors, learners), learners * _ACTORS_PER_LEARNER + 1):
            candidate = Choice(learners, start.learner_cores, actors)
            if (problem.actors is None or actors == problem.actors) and fits(problem, candidate):
                best = max(best, candidate, key=lambda choice: (choice.actors, -choice.learners))
    return best
