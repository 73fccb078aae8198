"""What given counts reach: steps per second, with each group taking the actors of its own node first. Pure.

Flows of one node: x from its actors to its groups, y from its actors to groups elsewhere, z to its groups from
actors elsewhere. The counts of the model in `solver.py` obey the same limits; there the flows may be shared out
better, so this is a lower bound of what it finds, and the same where no two flows compete for core time.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from tianjictl.planning.terms import fastest_actor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.planning.solution import Counts
    from tianjictl.planning.terms import Terms


def steps_per_s(terms: Sequence[Terms], nodes: Sequence[Counts]) -> float:
    """Environment steps per second of a placement."""
    groups = sum(counts.learners for counts in nodes)
    each = sum(counts.actors for counts in nodes) // groups
    fastest = fastest_actor(terms)
    stay = leave = come = 0.0
    for term, counts in zip(terms, nodes, strict=True):
        x, y, z = _flows(term, counts, each, fastest)
        stay, leave, come = stay + x, leave + y, come + z
    return stay + min(leave, come)


def steps_per_s_alone(term: Terms, counts: Counts, each: int) -> float:
    """The same of one node without the others, whose groups have `each` actors and one more."""
    return _flows(term, counts, each, term.actor_rate)[0]


def taken(term: Terms, counts: Counts, each: int, fastest: float) -> float:
    """What the groups of one node can take; the larger of them have an actor more than `each`."""
    smaller = min(term.group_rate, each * fastest)
    larger = min(term.group_rate, (each + 1) * fastest)
    return (counts.learners - counts.larger) * smaller + counts.larger * larger


def _flows(term: Terms, counts: Counts, each: int, fastest: float) -> tuple[float, float, float]:
    """(x, y, z) of one node: what it can do beside its local flow is for others."""
    demand = counts.learners * each + counts.larger
    local = min(counts.actors, demand)
    time = term.time_left(counts.learners)
    shared = term.train_cpu if counts.learners and counts.learners == term.full else 0.0
    most = taken(term, counts, each, fastest)
    kept = term.buffer_cpu + shared
    x = min(local * term.actor_rate, most, _within(time, term.actor_cpu + kept))
    time -= x * (term.actor_cpu + kept)
    y = min((counts.actors - local) * term.actor_rate, term.network, _within(time, term.actor_cpu + term.courier_cpu))
    z = min((demand - local) * fastest, term.network, most - x, _within(time, kept + term.courier_cpu))
    return x, y, z


def _within(time: float, cost: float) -> float:
    """The flow that so much core time allows."""
    return max(0.0, time) / cost if cost > 0 else inf
