"""Counts of several nodes that are alike, dealt to each of them as evenly as whole numbers allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.shape import share
from tianjictl.planning.solution import Counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.planning.recipes import Recipe
    from tianjictl.planning.solver import Found, Kind


def deal(recipe: Recipe, kinds: Sequence[Kind], found: Found) -> tuple[Counts, ...] | None:
    """The counts of each node in the problem's order; None where they do not come out even enough to fit."""
    dealt: dict[int, Counts] = {}
    for kind, counts, full in zip(kinds, found.counts, found.full, strict=True):
        shares = _of_kind(recipe, kind, counts, full)
        if shares is None:
            return None
        dealt |= dict(zip(kind.nodes, shares, strict=True))
    return tuple(dealt[index] for index in range(len(recipe.terms)))


def _of_kind(recipe: Recipe, kind: Kind, counts: Counts, full: int) -> list[Counts] | None:
    term, many = kind.terms, len(kind.nodes)
    taken_whole = (term.full or 0) * full
    rest = many - full
    if rest == 0 and counts.learners > taken_whole:
        return None
    learners = [term.full or 0] * full + [share(counts.learners - taken_whole, rest, i) for i in range(rest)]
    if any(count not in term.learner_counts for count in learners):
        return None
    larger = _larger(learners, counts.larger)
    rooms = [term.actors_beside(count) for count in learners]
    wanted = [count * recipe.each + more for count, more in zip(learners, larger, strict=True)]
    actors = _evened([min(pair) for pair in zip(rooms, wanted, strict=True)], rooms, counts.actors)
    if actors is None:
        return None
    return [Counts(*each) for each in zip(learners, larger, actors, strict=True)]


def _larger(learners: Sequence[int], total: int) -> list[int]:
    """Larger groups one by one to the node that has the smallest part of its groups enlarged."""
    larger = [0] * len(learners)
    for _ in range(total):
        able = [i for i, count in enumerate(learners) if larger[i] < count]
        larger[min(able, key=lambda i: (larger[i] / learners[i], i))] += 1
    return larger


def _evened(actors: list[int], rooms: Sequence[int], total: int) -> list[int] | None:
    """Add actors where most room is, or take them where most are, until there are `total`; None without room."""
    if total > sum(rooms):
        return None
    while sum(actors) < total:
        actors[max(range(len(actors)), key=lambda i: (rooms[i] - actors[i], -i))] += 1
    while sum(actors) > total:
        actors[max(range(len(actors)), key=lambda i: (actors[i], i))] -= 1
    return actors
