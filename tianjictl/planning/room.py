"""Whether a request fits at all, each component on cores of its own. Pure, exact, and without the solver."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tianjictl.planning.terms import terms_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from tianjictl.planning.problem import Problem
    from tianjictl.planning.terms import Terms


def fits(problem: Problem) -> bool:
    """Whether any counts that the request allows fit."""
    return any(_fit(problem, terms_of(problem, cores)) for cores in problem.learner_core_choices())


def room_of(problem: Problem) -> Hashable:
    """What the planner can tell two sizings of a problem apart by: speeds, and the counts that fit on every node."""
    known: dict[Terms, Hashable] = {}
    for cores in problem.learner_core_choices():
        for term in terms_of(problem, cores):
            if term not in known:
                beside = tuple(term.actors_beside(learners) for learners in term.learner_counts)
                known[term] = replace(term, memory=0, learner_memory=0, actor_memory=0), beside
    terms = (terms_of(problem, cores) for cores in problem.learner_core_choices())
    return tuple(tuple(known[term] for term in each) for each in terms)


def _fit(problem: Problem, terms: Sequence[Terms]) -> bool:
    """The fewest learners and actors need the least room, but for nodes that may have all their cores or none."""
    fewest = problem.smallest
    tries = [fewest.learners]
    if problem.learners is None and any(len(term.learner_counts) <= term.learner_counts[-1] for term in terms):
        tries += range(fewest.learners + 1, sum(term.learner_counts[-1] for term in terms) + 1)
    for learners in tries:
        actors = fewest.actors if problem.actors is not None else max(fewest.actors, learners)
        room = most_actors(terms, learners) if problem.allows(learners, actors) else None
        if room is not None and room >= actors:
            return True
    return False


def most_actors(terms: Sequence[Terms], learners: int) -> int | None:
    """The most actors beside so many learners, however these are dealt to the nodes; None where they do not fit."""
    placed = learners_for_actors(terms, learners)
    if placed is None:
        return None
    return sum(each.actors_beside(count) for each, count in zip(terms, placed, strict=True))


def learners_for_actors(terms: Sequence[Terms], learners: int) -> list[int] | None:
    """So many learners dealt to the nodes in the way that leaves most room for actors; None where they do not fit.

    Dynamic programming over the nodes; a learner is worth most where no actor may be.
    """
    if sum(each.learner_counts[-1] for each in terms) < learners:
        return None
    # best[g]: (actors beside g learners on the nodes so far, how many learners the last of these nodes has)
    tables: list[dict[int, tuple[int, int]]] = []
    before: dict[int, tuple[int, int]] = {0: (0, 0)}
    for each in terms:
        beside = [(count, each.actors_beside(count)) for count in each.learner_counts]
        best: dict[int, tuple[int, int]] = {}
        for placed, (room, _) in before.items():
            for count, more in beside:
                if placed + count > learners:
                    break
                if room + more > best.get(placed + count, (-1, 0))[0]:
                    best[placed + count] = (room + more, count)
        tables.append(best)
        before = best
    if learners not in before:
        return None
    counts = []
    left = learners
    for table in reversed(tables):
        counts.append(table[left][1])
        left -= counts[-1]
    return counts[::-1]
