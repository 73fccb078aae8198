"""What it means for a run that nodes are away, and how the plan goes on without them, or with them again. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.contract.arrangement import ArrangementError, present_shape, rearrange, regroup
from runtime.contract.shape import Shape
from runtime.contract.states import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.contract.plan import Placement, Plan

#: A group whose home is away for longer has its actors on other nodes join other groups. A shorter cut costs nothing:
#: what is on the far side has gone on, and is used when it is over.
REGROUP_AFTER_S = 12.0
_NAMED = 4  #: so many components are named


@dataclass(frozen=True, slots=True)
class Loss:
    """What the absence of nodes means now."""

    text: str  #: which nodes, why, who is away with them, what comes of it
    paused: bool = False
    hopeless: bool = False  #: no learner is left


def judge(plan: Plan, away: Mapping[str, str]) -> Loss | None:
    """None where no node is away. `away`: lost nodes and why they count as lost."""
    if not away:
        return None
    left = present_shape(plan, frozenset(away))
    said = "; ".join(_told(plan, node, reason) for node, reason in sorted(away.items()))
    back = "it is back" if len(away) == 1 else "they are back"
    if not left.learners:
        return Loss(f"{said}; no learner is left: paused until {back}", paused=True, hopeless=True)
    elastic = plan.job.elastic
    if elastic.node_loss == "wait":
        return Loss(f"{said}; paused until {back} (elastic.node_loss: wait)", paused=True)
    if elastic.min is not None:
        least = Shape.parse(elastic.min)
        if left.learners < least.learners or left.actors < least.actors:
            return Loss(f"{said}; paused until {back}: {left} is below elastic.min {least}", paused=True)
    if not left.actors:
        return Loss(f"{said}; no actor is left: nothing new is made until {back}")
    return Loss(f"{said}; training goes on with {left}")


def _told(plan: Plan, node: str, reason: str) -> str:
    names = [placement.name for placement in plan.on(node) if not placement.leaving]
    named = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    what = f"{named} {'is' if len(names) == 1 else 'are'} away" if names else "nothing ran there"
    return f"node {node} is lost ({reason}): {what}"


def without_homes(plan: Plan, away: frozenset[str]) -> Plan:
    """The plan in which actors whose group's home is away serve other groups; the plan itself where there are none."""
    return regroup(plan, away) if plan.job.elastic.node_loss == "shrink" else plan


def with_node_again(plan: Plan, away: frozenset[str]) -> Plan:
    """A node is back with all that it ran: what was given to others meanwhile is evened out again."""
    return rearrange(plan, Shape.parse(plan.shape), away=away)


def with_node_anew(plan: Plan, node: str, away: frozenset[str]) -> Plan:
    """A node has begun anew: all that it ran is gone. The shape is filled again where there is room, also there.

    Where nothing can be filled at the moment, what is gone is only marked. ArrangementError where no learner is left
    anywhere whose parameters a new one could take.
    """
    gone = frozenset({node})
    try:
        return rearrange(plan, Shape.parse(plan.shape), away=away - gone, gone=gone)
    except ArrangementError:
        if not _learner_elsewhere(plan, node):
            raise
    marked = _marked(plan, node)
    same = marked == plan.placements
    return plan if same else plan.model_copy(update={"placements": marked, "revision": plan.revision + 1})


def _learner_elsewhere(plan: Plan, node: str) -> bool:
    return any(plan.home(group) != node for group in plan.groups)


def _marked(plan: Plan, node: str) -> tuple[Placement, ...]:
    """Who was on the node leaves, and with a learner its whole group."""
    groups = {group for group in plan.groups if plan.home(group) == node}
    return tuple(
        placement.model_copy(update={"leaving": True})
        if placement.host == node or (placement.group in groups and placement.role is not Role.EVALUATOR)
        else placement
        for placement in plan.placements
    )
