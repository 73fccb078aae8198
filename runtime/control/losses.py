"""What it means for a run that nodes are away, and how the plan goes on without them, or with them again. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.contract.arrangement import ArrangementError, present_shape, rearrange, regroup
from runtime.contract.arranging import names_used
from runtime.contract.shape import Shape
from runtime.contract.states import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.contract.plan import Placement, Plan

_NAMED = 4  #: so many components are named


@dataclass(frozen=True, slots=True)
class Loss:
    """What the absence of nodes means now."""

    text: str  #: which nodes, why, who is away with them, what comes of it now and later
    paused: bool = False
    hopeless: bool = False  #: no learner is left


def judge(plan: Plan, away: Mapping[str, str]) -> Loss | None:
    """None where no node is away. `away`: lost nodes and why they count as lost."""
    if not away:
        return None
    left = present_shape(plan, frozenset(away))
    said = "; ".join(_told(plan, node, reason) for node, reason in sorted(away.items()))
    back = f"{next(iter(away))} is back" if len(away) == 1 else "they are back"
    if not left.learners:
        return Loss(f"{said}; no learner is left: paused until {back}", paused=True, hopeless=True)
    elastic = plan.job.elastic
    if elastic.node_loss == "wait":
        return Loss(f"{said}; paused until {back} (elastic.node_loss: wait)", paused=True)
    if elastic.min is not None:
        least = Shape.parse(elastic.min)
        if not left.covers(least):
            return Loss(f"{said}; paused until {back}: {left} is below elastic.min {least}", paused=True)
    if not left.actors:
        return Loss(f"{said}; no actor is left: nothing new is made until {back}")
    return Loss(f"{said}; training goes on with {left}{_told_of_idle(plan, away)}")


def _told_of_idle(plan: Plan, away: Mapping[str, str]) -> str:
    """What becomes of actors that are there, but whose learner is away: a shorter cut than the limit costs nothing."""
    homeless = [p for p in plan.of_role(Role.ACTOR) if not p.leaving and p.host not in away]
    count = sum(plan.home(p.group) in away for p in homeless)
    if not count:
        return ""
    whose, back = ("its", "it is back") if len(away) == 1 else ("their", "they are back")
    who = f"{whose} {count} actor{'s' if count > 1 else ''} elsewhere"
    one = count == 1
    try:
        without_homes(plan, frozenset(away))
    except ArrangementError:
        return f"; {who} {'has' if one else 'have'} nothing to do until {back}"
    joins = "joins another group" if one else "join other groups"
    return f"; {who} {joins} in {plan.job.elastic.regroup_after:g} s unless {back}"


def _told(plan: Plan, node: str, reason: str) -> str:
    names = [placement.name for placement in plan.on(node) if not placement.leaving]
    named = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    what = f"{named} {'is' if len(names) == 1 else 'are'} away" if names else "nothing ran there"
    return f"node {node} is lost ({reason}): {what}"


def without_homes(plan: Plan, away: frozenset[str], *, awaited: frozenset[str] = frozenset()) -> Plan:
    """The plan in which actors whose group's home is away serve other groups; the plan itself where there are none.

    Nodes of `awaited` have not been away for long enough.
    """
    return regroup(plan, away, awaited=awaited) if plan.job.elastic.node_loss == "shrink" else plan


def with_node_again(plan: Plan, away: frozenset[str]) -> Plan:
    """A node is back with all that it ran: what was given to others meanwhile is evened out again."""
    return rearrange(plan, Shape.parse(plan.shape), away=away)


def with_node_anew(plan: Plan, node: str, away: frozenset[str]) -> Plan:
    """A node has begun anew: all that it ran is gone. The shape is filled again where there is room, also there.

    Its actors are marked while their groups still use what has arrived of them; a group that was at home there is
    dropped whole, as there is nothing left that could be used. Where nothing can be filled at the moment, that is all.
    ArrangementError where no learner is left anywhere whose parameters a new one could take.
    """
    gone = frozenset({node})
    try:
        after = rearrange(plan, Shape.parse(plan.shape), away=away - gone, gone=gone)
    except ArrangementError:
        if all(plan.home(group) == node for group in plan.groups):
            raise
        after = plan
    kept = _kept(plan, after, node)
    if kept == plan.placements:
        return plan
    return after.model_copy(update={"placements": kept, "revision": plan.revision + 1, "names_used": names_used(after)})


def _kept(before: Plan, after: Plan, node: str) -> tuple[Placement, ...]:
    known = {placement.name for placement in before.placements}
    groups = {group for group in before.groups if before.home(group) == node}
    kept = []
    for placement in after.placements:
        if placement.group in groups:
            continue
        lost = placement.host == node and placement.name in known
        kept.append(placement.model_copy(update={"leaving": True}) if lost else placement)
    return tuple(kept)
