"""What another shape would bring to a run that lives, by the costs that it has measured of itself. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runtime.contract.arrangement import ArrangementError, rearrange
from runtime.contract.predicting import predicted
from runtime.contract.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from runtime.contract.plan import Plan
    from runtime.contract.rates import HostRates

MOST_TO_SEARCH = 200  #: components: beyond that a search would hold up the coordinator
WORTH_SEARCHING_FOR = 0.10


class Better(NamedTuple):
    """A shape and its gain: 0.25 is a quarter more samples per second."""

    shape: Shape
    gain: float


def predicted_gain(plan: Plan, shape: Shape, costs: Mapping[str, HostRates]) -> float | None:
    """How much faster the plan would be with another shape; none where costs are not known, or it does not fit.

    `costs`: by host; what is missing is taken from the plan.
    """
    known = plan.model_copy(update={"rates": plan.rates | dict(costs)})
    before = predicted(known).samples_per_s
    return None if not before else _gain(known, before, shape)


def better_shape(
    plan: Plan, costs: Mapping[str, HostRates], allowed: Callable[[Shape], bool] = lambda _shape: True
) -> Better | None:
    """The neighbouring shape that gains most, if that is worth a change; of equals the one with fewer components."""
    known = plan.model_copy(update={"rates": plan.rates | dict(costs)})
    before = predicted(known).samples_per_s
    if not before:
        return None
    found = [
        Better(shape, gain)
        for shape in _neighbours(plan.learners_and_actors)
        if (gain := _gain(known, before, shape)) is not None and gain >= WORTH_SEARCHING_FOR and allowed(shape)
    ]
    return max(
        found, key=lambda better: (round(better.gain, 3), -better.shape.learners, -better.shape.actors), default=None
    )


def _gain(known: Plan, before: float, shape: Shape) -> float | None:
    try:
        after = rearrange(known, shape).predicted.samples_per_s
    except ArrangementError:
        return None
    return None if not after else after / before - 1.0


def _neighbours(at: Shape) -> Iterator[Shape]:
    steps = sorted({1, max(1, at.actors // 4), max(1, at.actors // 2)})
    for learners in (at.learners - 1, at.learners, at.learners + 1):
        for change in (0, *steps, *(-step for step in steps)):
            actors = at.actors + change
            if 1 <= learners <= actors and (learners, actors) != (at.learners, at.actors):
                yield Shape(learners, actors)
