"""The plan that holds, who has been told of it, and when a change of it may be settled.

A change comes in two revisions: the first marks what leaves and adds what is new, the second drops what has left.
`may_settle` is the judgement between them, pure; the class around it keeps the plan's file and the agents informed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from runtime.contract.arrangement import is_settled, settle
from runtime.contract.files import write_whole
from runtime.contract.messages import Assign
from runtime.contract.states import ComponentState, Role

if TYPE_CHECKING:
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Placement, Plan
    from runtime.control.fold import Fold
    from runtime.control.nodes import Node

log = logging.getLogger(__name__)

DRAIN_S = 15.0  #: what leaves has so long to drain; what is left then counts as dropped
ASSIGN_AGAIN_S = 1.0  #: an agent that does not work by the plan yet is told again
_GONE = (ComponentState.EXITED, ComponentState.FAILED)


class Revisions:
    """Holds the plan; agents whose revision is older are to be sent `due`."""

    def __init__(self, paths: RunPaths, plan: Plan, *, attempt: int, now: float) -> None:
        self._paths = paths
        self._attempt = attempt
        self._since = now
        self._told: dict[str, tuple[str, int, float]] = {}  # node → instance, revision, when
        self.plan = plan

    def replace(self, plan: Plan, now: float) -> bool:
        """`plan` holds from now on; False where the disk refuses: a plan that could be forgotten must not hold."""
        try:
            write_whole(self._paths.plan, plan.model_dump_json(indent=1) + "\n")
        except OSError as error:
            log.error("plan.unwritten revision=%d error=%s", plan.revision, error)
            return False
        self.plan, self._since = plan, now
        return True

    def due(self, node: Node, now: float) -> Assign | None:
        """What this node has to be told; once at first, and again while it does not follow."""
        if not node.connected or node.revision >= self.plan.revision:
            return None
        instance, revision, at = self._told.get(node.name, ("", 0, 0.0))
        if (instance, revision) == (node.instance, self.plan.revision) and now - at < ASSIGN_AGAIN_S:
            return None
        self._told[node.name] = (node.instance, self.plan.revision, now)
        return Assign(plan=self.plan, attempt=self._attempt)

    def settled(self, fold: Fold, now: float) -> Plan | None:
        """The plan's second revision, once it may be made."""
        if is_settled(self.plan) or not may_settle(self.plan, fold, waited_s=now - self._since):
            return None
        return settle(self.plan)


def may_settle(plan: Plan, fold: Fold, *, waited_s: float) -> bool:
    """Whether all that leaves has left and drained, or had its time, and all that is new stands on its own feet."""
    if any(p.donor is not None and not p.leaving and not _stands(p, fold) for p in plan.placements):
        return False
    leaving = [placement for placement in plan.placements if placement.leaving]
    return waited_s >= DRAIN_S or (_is_followed(plan, fold) and all(_has_left(one, fold) for one in leaving))


def _is_followed(plan: Plan, fold: Fold) -> bool:
    """Whether every node works by this plan, and nobody is just being made: who is, reads the plan on the way."""
    there = [host.name for host in plan.hosts if host.name not in fold.away]
    if any(fold.revision_of(node) < plan.revision for node in there):
        return False
    return all(fold.state_of(placement)[0] is not ComponentState.STARTING for placement in plan.placements)


def _stands(learner: Placement, fold: Fold) -> bool:
    """Whether it needs its donor no more. While its node is away that is not known."""
    return fold.state_of(learner)[0] in (ComponentState.RUNNING, *_GONE)


def _has_left(placement: Placement, fold: Fold) -> bool:
    match placement.role:
        case Role.ACTOR:
            return fold.state_of(placement)[0] in _GONE and fold.ledger.drained(placement.name, fold.forsaken)
        case Role.BUFFER | Role.LEARNER:
            return fold.ledger.group_drained(placement.group, fold.forsaken)
        case _:
            return True
