"""A good placement at once: hint for the solver, and what is left where its time runs out.

For a recipe: as many groups as fit with the learners where they leave most room, and each group's actors near it.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from tianjictl.planning.flows import steps_per_s, steps_per_s_alone
from tianjictl.planning.room import learners_for_actors
from tianjictl.planning.solution import ALIKE, Counts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tianjictl.planning.problem import Problem
    from tianjictl.planning.recipes import Recipe
    from tianjictl.planning.terms import Terms

_TRIES = 12  #: recipes, the most promising first
_FEW = 8  #: nodes over which every way to deal the learners may be looked at


def grow(problem: Problem, known: Sequence[Recipe]) -> tuple[Recipe, tuple[Counts, ...]] | None:
    """The best of a few recipes, each with as many groups as fit; None where none of them does."""
    found: list[tuple[float, Recipe, tuple[Counts, ...]]] = []
    for recipe in known:
        if len(found) >= _TRIES:
            break
        made = [each_for_itself(problem, recipe), most_groups(problem, recipe)]
        found += [(steps_per_s(recipe.terms, counts), recipe, counts) for counts in made if counts is not None]
    if not found:
        return None
    _, recipe, counts = max(found, key=lambda entry: entry[0])
    return recipe, counts


def each_for_itself(problem: Problem, recipe: Recipe) -> tuple[Counts, ...] | None:
    """The best of each node on its own, with nothing that crosses; None where that is not what was asked for."""
    known: dict[Terms, Counts] = {}
    for term in recipe.terms:
        if term not in known:
            known[term] = max(_alone(term, recipe.each), key=lambda entry: entry[0])[1]
    counts = tuple(known[term] for term in recipe.terms)
    learners, actors = sum(c.learners for c in counts), sum(c.actors for c in counts)
    return counts if problem.allows(learners, actors) and actors // learners == recipe.each else None


def _alone(term: Terms, each: int) -> Iterator[tuple[tuple[float, int, int], Counts]]:
    """What one node may do on its own, and how good that is: more steps, fewer cores, fewer learners."""
    yield (0.0, 0, 0), Counts(0, 0, 0)
    for learners in term.learner_counts[1:]:
        room = term.actors_beside(learners) - learners * each
        if room < 0:
            return
        most = Counts(learners, min(learners, room), learners * each + min(learners, room))
        reached = steps_per_s_alone(term, most, each) * (1.0 - ALIKE)
        larger = bisect_left(range(most.larger), reached, key=partial(_with_larger, term, learners, each))
        counts = Counts(learners, larger, learners * each + larger)
        yield (reached, -learners * term.learner_cores - counts.actors, -learners), counts


def _with_larger(term: Terms, learners: int, each: int, larger: int) -> float:
    return steps_per_s_alone(term, Counts(learners, larger, learners * each + larger), each)


def most_groups(problem: Problem, recipe: Recipe) -> tuple[Counts, ...] | None:
    """As many groups of a recipe as fit, found by bisection; None where not even the fewest do."""
    low, high = recipe.learners
    best = _placed(problem, recipe, low)
    while low < high:
        middle = (low + high + 1) // 2
        counts = _placed(problem, recipe, middle)
        if counts is None:
            high = middle - 1
        else:
            low, best = middle, counts
    return best


def _placed(problem: Problem, recipe: Recipe, learners: int) -> tuple[Counts, ...] | None:
    actors = max(recipe.actors[0], learners * recipe.each)
    if actors > recipe.actors[1] or actors // learners != recipe.each or not problem.allows(learners, actors):
        return None
    even = spread_evenly(recipe.terms, learners)
    made = None if even is None else with_actors(recipe.terms, even, actors)
    if made is not None or len(recipe.terms) > _FEW:
        return made
    placed = learners_for_actors(recipe.terms, learners)
    return None if placed is None else with_actors(recipe.terms, placed, actors)


def spread_evenly(terms: Sequence[Terms], learners: int) -> list[int] | None:
    """Learners one by one: where no actor may be, else where most cores are left; None where they do not fit."""
    counts = [0] * len(terms)

    def place(index: int) -> tuple[bool, int, int]:
        term = terms[index]
        return term.acts, counts[index] * term.learner_cores - term.cores, index

    waiting = [place(index) for index, term in enumerate(terms) if 1 in term.learner_counts]
    heapify(waiting)
    for _ in range(learners):
        if not waiting:
            return None
        _, _, index = heappop(waiting)
        counts[index] += 1
        if counts[index] + 1 in terms[index].learner_counts:
            heappush(waiting, place(index))
    return counts


def with_actors(terms: Sequence[Terms], learners: Sequence[int], actors: int) -> tuple[Counts, ...] | None:
    """Larger groups on the first nodes, actors at their groups' nodes while there is room, the rest where there is."""
    groups = sum(learners)
    each, larger = divmod(actors, groups)
    rooms = [term.actors_beside(count) for term, count in zip(terms, learners, strict=True)]
    if sum(rooms) < actors:
        return None
    grown, placed, left = [], [], larger
    for count, room in zip(learners, rooms, strict=True):
        grown.append(min(count, left))
        left -= grown[-1]
        placed.append(min(room, count * each + grown[-1]))
    missing = actors - sum(placed)
    for index, room in enumerate(rooms):
        more = min(missing, room - placed[index])
        placed[index] += more
        missing -= more
    return tuple(Counts(*counts) for counts in zip(learners, grown, placed, strict=True))
