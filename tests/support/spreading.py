"""A first placement over many nodes for tests of how plans change: by the rules of a change, not the planner's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.arranging import Arranging, check_actors
from runtime.contract.drafting import NoRoomError
from runtime.contract.fitting import is_possible, unfit
from runtime.contract.states import Role

if TYPE_CHECKING:
    from runtime.contract.job import Job
    from runtime.contract.plan import HostPlan, Placement, Sizes
    from runtime.contract.shape import Shape


def spread(
    job: Job,
    sizes: Sizes,
    shape: Shape,
    hosts: tuple[HostPlan, ...],
) -> tuple[Placement, ...]:
    """A first placement over many hosts, in the order learners, buffers, actors, evaluator.

    The head, which is the first host, gets the first learner if it may. ArrangementError as in `rearrange`.
    """

    def placed(wanted: Shape) -> tuple[Placement, ...]:
        change = Arranging(job, sizes, hosts)
        check_actors(wanted.actors, wanted.learners, change.least, sizes)
        for group in range(wanted.learners):
            change.add_learner(group, None, first=hosts[0].name if group == 0 else None)
        change.add_actors({group: wanted.actors_of_group(group) for group in range(wanted.learners)})
        change.add_buffers()
        change.add_evaluator()
        order = (Role.LEARNER, Role.BUFFER, Role.ACTOR, Role.EVALUATOR)
        return tuple(sorted(change.shared_out(), key=lambda p: (order.index(p.role), p.index)))

    try:
        return placed(shape)
    except NoRoomError as error:

        def fits(other: Shape) -> bool:
            return is_possible(lambda: placed(other))

        raise unfit(shape, error, job, sizes, hosts, fits) from error
