"""What another shape would bring to a run that lives, by the costs that it has measured of itself. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runtime.contract.arrangement import ArrangementError, rearrange, settle
from runtime.contract.forecast import forecast
from runtime.contract.predicting import rates_of_all
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
    before = _samples_per_s(known)
    if before is None:
        return None
    try:
        after = _samples_per_s(settle(rearrange(known, shape)))
    except ArrangementError:
        return None
    return None if after is None else after / before - 1.0


def better_shape(
    plan: Plan, costs: Mapping[str, HostRates], allowed: Callable[[Shape], bool] = lambda _shape: True
) -> Better | None:
    """The neighbouring shape that gains most, if that is worth a change; of equals the one with fewer components."""
    found = [
        Better(shape, gain)
        for shape in _neighbours(plan.learners_and_actors)
        if allowed(shape) and (gain := predicted_gain(plan, shape, costs)) is not None and gain >= WORTH_SEARCHING_FOR
    ]
    return max(
        found, key=lambda better: (round(better.gain, 3), -better.shape.learners, -better.shape.actors), default=None
    )


def _neighbours(at: Shape) -> Iterator[Shape]:
    steps = sorted({1, max(1, at.actors // 4), max(1, at.actors // 2)})
    for learners in (at.learners - 1, at.learners, at.learners + 1):
        for change in (0, *steps, *(-step for step in steps)):
            actors = at.actors + change
            if 1 <= learners <= actors and (learners, actors) != (at.learners, at.actors):
                yield Shape(learners, actors)


def _samples_per_s(plan: Plan) -> float | None:
    found = forecast(plan, rates_of_all(plan))
    return None if found is None or found.samples_per_s <= 0 else found.samples_per_s
