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

    `least`: actors of a group; `most`: heavy components that could fit at all. Each try may take a while, so few are
    made: with fewer learners there is more room, and with fewer actors too.
    """
    learners = _largest(lambda n: fits(Shape(n, n * least)), 1, min(wanted.learners, most))
    if learners is None:
        return None
    found = [_most_actors(fits, learners, wanted.actors, least, most)]
    if (fed := wanted.actors // least) in range(1, learners):  # so many groups would have enough of the actors wanted
        found.append(_most_actors(fits, fed, wanted.actors, least, most))

    def distance(shape: Shape) -> tuple[int, int]:
        away = abs(wanted.learners - shape.learners)
        return away + abs(wanted.actors - shape.actors), away

    return min(found, key=distance)


def _most_actors(fits: Callable[[Shape], bool], learners: int, wanted: int, least: int, most: int) -> Shape:
    """As many of the actors wanted as fit beside so many learners, and enough for them."""
    fewest = least * learners
    actors = _largest(lambda n: n == fewest or fits(Shape(learners, n)), fewest, max(fewest, min(wanted, most)))
    return Shape(learners, actors or fewest)


def _largest(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The largest number from `low` to `high` for which `holds`, where it holds up to some number and not beyond."""
    if low > high or not holds(low):
        return None
    beyond = high + 1
    while beyond - low > 1:
        middle = (low + beyond) // 2
        low, beyond = (middle, beyond) if holds(middle) else (low, middle)
    return low
