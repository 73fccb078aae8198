"""Whether a shape fits, and which is the nearest that does. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.arranging import least_actors
from runtime.contract.drafting import MOST_PER_CORE, NoRoomError
from runtime.contract.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.contract.job import Job
    from runtime.contract.plan import HostPlan, Sizes


class ArrangementError(ValueError):
    """A change that cannot be made; `hint` says what could."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def is_possible(attempt: Callable[[], object]) -> bool:
    """Whether there is room for what `attempt` would place."""
    try:
        attempt()
    except NoRoomError:
        return False
    return True


def unfit(
    shape: Shape,
    error: NoRoomError,
    job: Job,
    sizes: Sizes,
    hosts: Sequence[HostPlan],
    fits: Callable[[Shape], bool],
) -> ArrangementError:
    """What is wrong with a shape, and the nearest one with which it would not be."""
    cores = sum(len(host.cores) for host in hosts)
    most = cores * MOST_PER_CORE if job.distributed.oversubscribe else cores
    found = nearest_shape(fits, shape, least=least_actors(sizes), most=most)
    if found is None:
        return ArrangementError(f"{shape} does not fit: {error}", hint="no shape fits: add a host")
    return ArrangementError(f"{shape} does not fit: {error}", hint=f"{found} is the nearest shape that fits")


def nearest_shape(fits: Callable[[Shape], bool], wanted: Shape, *, least: int, most: int) -> Shape | None:
    """The shape nearest to `wanted` that fits, of those with as many learners or fewer; none where none does.

    `least`: actors of a group; `most`: heavy components that could fit at all.
    """
    best: Shape | None = None

    def distance(shape: Shape) -> tuple[int, int]:
        learners = abs(wanted.learners - shape.learners)
        return learners + abs(wanted.actors - shape.actors), learners

    for learners in range(min(wanted.learners, most), 0, -1):
        if best is not None and wanted.learners - learners >= distance(best)[0]:
            break
        fewest = least * learners
        if not fits(Shape(learners, fewest)):
            continue
        low, high = fewest, max(fewest, min(wanted.actors, most))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(Shape(learners, middle)) else (low, middle - 1)
        found = Shape(learners, low)
        if best is None or distance(found) < distance(best):
            best = found
    return best
