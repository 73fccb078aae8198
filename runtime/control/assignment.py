"""What a new revision of the plan changes for the components of one node. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.contract.states import Role
from runtime.wiring import inputs_of

if TYPE_CHECKING:
    from runtime.contract.plan import Placement, Plan


@dataclass(frozen=True, slots=True)
class Assignment:
    """What to do with components of this node, by name where they are known already."""

    start: tuple[Placement, ...] = ()
    replace: tuple[str, ...] = ()  #: what they are connected to has changed
    leave: tuple[str, ...] = ()  #: they stay in the plan until what they made is used up, and make nothing new
    retire: tuple[str, ...] = ()  #: the plan has them no more


def assignment(before: Plan | None, after: Plan, node: str) -> Assignment:
    """The way from one plan to the next; `before` is none where nothing runs yet.

    A buffer or learner that leaves works on: somebody has to use up what its actors have made.
    """
    had = {p.name: p for p in before.on(node)} if before is not None else {}
    has = {p.name: p for p in after.on(node)}
    kept = [name for name in has if name in had]
    leaving = {name for name, p in has.items() if p.leaving and p.role in (Role.ACTOR, Role.EVALUATOR)}
    return Assignment(
        start=tuple(p for name, p in has.items() if name not in had),
        replace=tuple(
            name
            for name in kept
            if before is not None
            and name not in leaving
            and inputs_of(before, node, name) != inputs_of(after, node, name)
        ),
        leave=tuple(name for name in has if name in leaving and not (name in had and had[name].leaving)),
        retire=tuple(name for name in had if name not in has),
    )


def is_wan(plan: Plan, node: str, peer: str) -> bool:
    """Whether the link between two nodes is a slow one."""
    return plan.host(node).wan or plan.host(peer).wan
