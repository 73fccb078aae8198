"""How a plan changes while its run lives: another shape, other nodes, a node that is lost. Pure; both sides use it.

A change keeps what is healthy where it is. It comes in two revisions: the first marks what leaves and adds what is new,
`settle` makes the second once the leaving have drained and new learners have taken over their donors' parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.arranging import Arranging, check_actors, even_targets, least_actors, names_used
from runtime.contract.difference import difference
from runtime.contract.drafting import NoRoomError
from runtime.contract.fitting import ArrangementError, is_possible, unfit
from runtime.contract.predicting import predicted
from runtime.contract.shape import Shape
from runtime.contract.states import Role

if TYPE_CHECKING:
    from runtime.contract.plan import HostPlan, Placement, Plan

__all__ = [
    "ArrangementError",
    "can_hold",
    "difference",
    "is_settled",
    "least_actors",
    "present_shape",
    "rearrange",
    "regroup",
    "settle",
]


def rearrange(
    plan: Plan,
    shape: Shape,
    *,
    hosts: tuple[HostPlan, ...] | None = None,
    away: frozenset[str] = frozenset(),
    leave: frozenset[str] = frozenset(),
    gone: frozenset[str] = frozenset(),
) -> Plan:
    """The plan with `shape`, in the next revision and with the fewest changes; the plan itself where nothing changes.

    `hosts`: all nodes from now on, none: those of the plan. `away`: nodes that do not answer now; what is there counts
    and stays, nothing is added. `leave`: nodes to be emptied. `gone`: nodes that have lost everything they ran but may
    be used again. Groups whose home is away are left alone (see `regroup`), and sizes are fixed for a run.
    ArrangementError where the shape does not fit; the hint names the nearest one that does.
    """
    nodes = _nodes(plan, hosts, leave)
    if nodes[0].leaving:
        raise ArrangementError(
            f"{plan.head} is the head: the coordinator runs there, so it cannot leave the run",
            hint="stop the run and resume it on other nodes",
        )
    try:
        return _expecting(plan, _arranged(plan, shape, nodes, away, gone))
    except NoRoomError as error:

        def fits(other: Shape) -> bool:
            return is_possible(lambda: _arranged(plan, other, nodes, away, gone))

        raise unfit(shape, error, plan.job, plan.sizes, nodes, fits) from error


def can_hold(plan: Plan, shape: Shape) -> bool:
    """Whether the nodes of a plan, all of them there, have room for `shape`; quicker than `rearrange` where not."""
    return is_possible(lambda: _arranged(plan, shape, plan.hosts, frozenset(), frozenset()))


def settle(plan: Plan) -> Plan:
    """The second revision of a change: what was leaving is gone, new learners stand on their own feet.

    The plan itself where there is nothing to settle.
    """
    if is_settled(plan):
        return plan
    staying = tuple(p.model_copy(update={"donor": None}) for p in plan.placements if not p.leaving)
    return plan.model_copy(
        update={
            "revision": plan.revision + 1,
            "hosts": tuple(host for host in plan.hosts if not host.leaving),
            "placements": staying,
            "names_used": names_used(plan),
        }
    )


def is_settled(plan: Plan) -> bool:
    """Whether no change is under way."""
    return not (any(p.leaving or p.donor is not None for p in plan.placements) or any(h.leaving for h in plan.hosts))


def regroup(plan: Plan, away: frozenset[str], *, awaited: frozenset[str] = frozenset()) -> Plan:
    """Give the actors of groups whose home is away to groups that are there; the plan itself where there are none.

    An actor cannot change its group: it leaves, and a new one takes its place and its cores. What is on the nodes that
    are away stays in the plan as it is: it goes on when they are back (`rearrange` then evens the groups out again). A
    group that has lost so many actors that it cannot fill a batch is given some of the others'. Groups whose home is
    `awaited`, which is away too, keep their actors for now.
    """
    change = Arranging(plan.job, plan.sizes, plan.hosts, plan.placements, used=names_used(plan), away=away)
    lost = change.lost_groups()
    there = [group for group in change.groups() if group not in lost]
    if not there:
        return plan
    given_up = [group for group in lost if change.home(group) not in awaited]
    homeless = change.leave(lambda p: p.role is Role.ACTOR and p.group in given_up and p.host not in away)
    sizes = {group: len(change.present(group)) for group in there}
    for _ in range(len(homeless)):
        sizes[min(sizes, key=lambda g: (sizes[g], g))] += 1
    places = list(homeless)
    while sizes[poor := min(sizes, key=lambda g: (sizes[g], g))] < change.least:
        rich = max(sizes, key=lambda g: (sizes[g], -g))
        spare = change.present(rich)
        if sizes[rich] <= change.least or not spare:
            break
        places += change.leave_named({spare[0].name})
        sizes[rich], sizes[poor] = sizes[rich] - 1, sizes[poor] + 1
    blind = change.leave(lambda p: p.role is Role.EVALUATOR and p.group in given_up and p.host not in away)
    if not places and not blind:
        return plan
    change.begin()
    try:
        for place in places:
            group = max(there, key=lambda g: (sizes[g] - len(change.present(g)), -g))
            change.add_actor(group, place.host, place.cores, place.core_share)
        change.add_evaluator()
    except NoRoomError as error:
        raise ArrangementError(
            str(error), hint=f"tianjictl resume --from-checkpoint latest --shape {plan.shape}"
        ) from error
    return _expecting(plan, _next(plan, change, plan.shape))


def present_shape(plan: Plan, away: frozenset[str] = frozenset()) -> Shape:
    """Learners and actors that can train now: on nodes that are there, in groups whose home is there. May be L0A0."""
    learners = {p.group for p in plan.of_role(Role.LEARNER) if not p.leaving and p.host not in away}
    actors = [p for p in plan.of_role(Role.ACTOR) if not p.leaving and p.host not in away and p.group in learners]
    return Shape(len(learners), len(actors))


def _nodes(plan: Plan, hosts: tuple[HostPlan, ...] | None, leave: frozenset[str]) -> tuple[HostPlan, ...]:
    """All nodes until the change is settled: those that are left are still there, and marked."""
    wanted = {host.name: host for host in hosts or plan.hosts}
    nodes = [wanted.pop(host.name, host.model_copy(update={"leaving": True})) for host in plan.hosts]
    return tuple(
        host.model_copy(update={"leaving": True}) if host.name in leave else host for host in (*nodes, *wanted.values())
    )


def _arranged(
    plan: Plan, shape: Shape, nodes: tuple[HostPlan, ...], away: frozenset[str], gone: frozenset[str]
) -> Plan:
    left = frozenset(host.name for host in nodes if host.leaving)
    change = Arranging(
        plan.job, plan.sizes, nodes, plan.placements, used=names_used(plan), away=away - gone, closed=left
    )
    empty = left | gone
    change.leave_groups(p.group for p in change.staying(Role.LEARNER) if p.host in empty)
    change.leave(lambda p: p.host in empty)
    lost = change.lost_groups()
    by_worth = sorted(change.groups(), key=lambda g: (g in lost, g))
    change.leave_groups(by_worth[shape.learners :])
    staying = by_worth[: shape.learners]
    new = list(range(change.used.groups, change.used.groups + shape.learners - len(staying)))
    there = [group for group in staying if group not in lost] + new
    elsewhere = sum(len(change.staying(Role.ACTOR, group)) for group in staying if group in lost)
    check_actors(shape.actors - elsewhere, len(there), change.least, plan.sizes)
    counts = {group: len(change.staying(Role.ACTOR, group)) for group in there}
    targets = even_targets(counts, shape.actors - elsewhere)
    for group, size in targets.items():
        change.shrink_group(group, size)
    change.leave(lambda p: p.role is Role.EVALUATOR and _is_blind(p, there, staying, away))
    change.begin()
    donor = _donor(plan, change, gone | away) if new else None
    for group in new:
        change.add_learner(group, donor)
    change.add_actors({group: max(0, size - counts[group]) for group, size in targets.items()})
    change.add_buffers()
    change.add_evaluator()
    return _next(plan, change, str(shape))


def _is_blind(evaluator: Placement, there: list[int], staying: list[int], away: frozenset[str]) -> bool:
    """Whether it waits for a policy that will not come. Where nothing is known of it, it may be as it should."""
    return evaluator.group not in (staying if evaluator.host in away else there)


def _donor(plan: Plan, change: Arranging, dead: frozenset[str]) -> int:
    """The group whose parameters new learners begin with: one that stays if there is one, else one that leaves now."""
    able = [p for p in plan.of_role(Role.LEARNER) if p.host not in dead]
    if not able:
        raise NoRoomError("no learner is left whose parameters a new one could take")
    staying = change.groups()
    return min(able, key=lambda p: (p.group not in staying, p.leaving, p.donor is not None, p.group)).group


def _next(plan: Plan, change: Arranging, shape: str) -> Plan:
    """The next revision; the plan itself where it would be the same."""
    made = plan.model_copy(
        update={
            "shape": shape,
            "hosts": change.shared_hosts(),
            "placements": change.shared_out(),
            "names_used": change.used,
        }
    )
    same = (made.shape, made.hosts, made.placements) == (plan.shape, plan.hosts, plan.placements)
    return plan if same else made.model_copy(update={"revision": plan.revision + 1})


def _expecting(plan: Plan, made: Plan) -> Plan:
    """With what the change is predicted to lead to; not part of the search for what fits, which tries many."""
    return plan if made is plan else made.model_copy(update={"predicted": predicted(made)})
