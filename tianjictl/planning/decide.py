"""Which counts go to which node, and with which sizes: the one entry to the planner's arithmetic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tianjictl.planning.alone import solve_alone
from tianjictl.planning.flows import steps_per_s
from tianjictl.planning.greedy import grow
from tianjictl.planning.recipes import recipes
from tianjictl.planning.room import fits, room_of
from tianjictl.planning.sharing import share_cores
from tianjictl.planning.solution import ALIKE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runtime.contract.shape import Shape
    from runtime.contract.sizings import Sizing
    from tianjictl.planning.problem import Problem
    from tianjictl.planning.solution import Solution

    Admits = Callable[[Sizing, Shape], bool]

#: Samples per second that other sizes must give for each that the usual ones give. Sizes change what is learnt: above
#: some batch, samples teach less each (McCandlish et al., An empirical model of large-batch training, 2018).
WORTH = 1.25
_FEW_NODES = 8  #: over which every choice of sizes is solved


class Settled(NamedTuple):
    """The problem at the sizes that were chosen, and its solution."""

    problem: Problem
    solution: Solution
    instead: float | None = None  #: samples per second at the usual sizes, where others were chosen and these fit


def settle(problem: Problem, admits: Admits = lambda _sizing, _shape: True) -> Settled | None:
    """Sizes and counts; None where nothing fits with any sizes.

    Other sizes than the usual are chosen only where they give at least `WORTH` times as much, or where the usual ones
    do not fit: of these the ones that give the most, of several that do the nearest to the usual. `admits`: whether
    sizes keep the bounds of the job with a shape; those of a choice that does not are not taken.
    """
    if problem.choices and len(problem.nodes) > _FEW_NODES:
        return _settle_quickly(problem, admits)
    usual = solve(problem)
    best = None if usual is None else Settled(problem, usual)
    if usual is not None and (usual.value <= 0 or not problem.measured):
        return best
    needed = 0.0 if usual is None else WORTH * usual.value
    for narrowed in _others(problem):
        most = max(needed, 0.0 if best is None else best.solution.value)
        if bound_of(narrowed) < most:
            continue
        found = solve(narrowed)
        if found is None or found.value < needed or not admits(narrowed.sizing, found.shape):
            continue
        if best is None or found.value > best.solution.value * (1.0 + ALIKE):
            best = Settled(narrowed, found, None if usual is None else usual.value)
    return best


def _settle_quickly(problem: Problem, admits: Admits) -> Settled | None:
    """The same over many nodes, where each solution takes seconds: sizes are compared by quick placements."""
    usual = _reached_quickly(problem)
    others = (narrowed for narrowed in _others(problem) if bound_of(narrowed) >= WORTH * usual)
    known = [(reached, narrowed) for narrowed in others if (reached := _reached_quickly(narrowed)) > 0]
    for reached, narrowed in sorted(known, key=lambda each: -each[0]):
        found = solve(narrowed) if reached >= WORTH * usual else None
        if found is not None and admits(narrowed.sizing, found.shape):
            return Settled(narrowed, found, found.value * usual / reached if usual > 0 else None)
    solution = solve(problem)
    return None if solution is None else Settled(problem, solution)


def _reached_quickly(problem: Problem) -> float:
    """Samples per second of a quick placement; 0 where there is none."""
    found = grow(problem, recipes(problem))
    return 0.0 if found is None else steps_per_s(found[0].terms, found[1]) * problem.ratio


def _others(problem: Problem) -> Iterator[Problem]:
    """The problem narrowed to each choice, but for those that differ from a nearer one by memory that does not bind."""
    seen = {room_of(problem)}
    for choice in problem.choices:
        narrowed = problem.at(choice)
        room = room_of(narrowed)
        if room not in seen:
            seen.add(room)
            yield narrowed


def bound_of(problem: Problem) -> float:
    """Samples per second that no placement of a problem can exceed; 0 where none fits."""
    return max((recipe.bound for recipe in recipes(problem)), default=0.0) * problem.ratio


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
