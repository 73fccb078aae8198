"""What an operator who asks for another shape is answered, and the plan that follows. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.contract.arrangement import ArrangementError, difference, is_settled, rearrange
from runtime.contract.operator import Reply
from runtime.contract.shape import Shape
from runtime.contract.states import Dependencies, RunState

if TYPE_CHECKING:
    from runtime.contract.job import ElasticConfig
    from runtime.contract.operator import Difference, ScaleRequest
    from runtime.contract.plan import HostPlan, Plan

CAN_SCALE = frozenset({RunState.RUNNING, RunState.DEGRADED})


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply, and the plan to go on with; none where nothing changes."""

    reply: Reply
    plan: Plan | None = None
    difference: Difference | None = None


class RefusedError(Exception):
    """Why a change is not made, and what to do, in words for the operator."""

    def __init__(
        self, message: str, hint: str | None = None, *, infeasible: bool = False, mistaken: bool = False
    ) -> None:
        super().__init__(message)
        self.reply = Reply(ok=False, error=message, hint=hint, infeasible=infeasible, mistaken=mistaken)


def answer(request: ScaleRequest, plan: Plan, *, state: RunState, away: frozenset[str] = frozenset()) -> Answer:
    """The answer to a request to scale a run that works by `plan` and whose nodes `away` do not answer now."""
    try:
        after = plan
        if not _only_brings_back(request, plan, away):
            _check(plan, state)
            after = _changed(request, plan, away)
    except RefusedError as refused:
        return Answer(refused.reply)
    change = difference(plan, after)
    reply = Reply(ok=True, data=change.model_dump(mode="json"))
    unchanged = after is plan or request.dry_run
    return Answer(reply, plan=None if unchanged else after, difference=change)


def _only_brings_back(request: ScaleRequest, plan: Plan, away: frozenset[str]) -> bool:
    """Whether nothing is asked for but that lost nodes take their places again: that needs no other plan."""
    returning = {host.name for host in request.add}
    return bool(returning) and returning <= away and not request.remove and request.shape in (None, plan.shape)


def _check(plan: Plan, state: RunState) -> None:
    if state not in CAN_SCALE:
        raise RefusedError(f"the run is {state}: only one that trains can be scaled")
    if plan.job.training.dependencies is Dependencies.STRICT:
        raise RefusedError(
            "training.dependencies is strict: who takes turns with whom is fixed",
            "stop the run and resume it with --shape",
        )
    if not is_settled(plan):
        raise RefusedError(f"a change to {plan.shape} is still under way", "try again when it is done")


def _changed(request: ScaleRequest, plan: Plan, away: frozenset[str]) -> Plan:
    shape = Shape.parse(plan.shape)
    if request.shape is not None:
        try:
            shape = Shape.parse(request.shape)
        except ValueError as error:
            raise RefusedError(str(error), mistaken=True) from error
        check_bounds(shape, plan.job.elastic)
    hosts = _hosts(request, plan, away)
    try:
        return rearrange(plan, shape, hosts=hosts, away=away, leave=frozenset(request.remove))
    except ArrangementError as error:
        raise RefusedError(error.message, error.hint, infeasible=True) from error


def _hosts(request: ScaleRequest, plan: Plan, away: frozenset[str]) -> tuple[HostPlan, ...]:
    """The plan's and those that join. A lost node may join again: its place is kept, only its agent is missing."""
    known = {host.name for host in plan.hosts}
    joining = []
    for host in request.add:
        if host.name in known:
            if host.name in away:
                continue
            why = f"{host.name} is a node of this run already, and connected"
            raise RefusedError(why, f"leave out --add-host {host.name}", mistaken=True)
        known.add(host.name)
        joining.append(host)
    for name in request.remove:
        if name not in known:
            why = f"{name} is no node of this run"
            raise RefusedError(why, f"its nodes are {', '.join(sorted(known))}", mistaken=True)
    return (*plan.hosts, *joining)


def check_bounds(shape: Shape, elastic: ElasticConfig) -> None:
    """Refuse what is outside the job's own range."""
    if elastic.min is not None:
        least = Shape.parse(elastic.min)
        if not shape.covers(least):
            nearest = Shape(max(shape.learners, least.learners), max(shape.actors, least.actors))
            raise RefusedError(f"{shape} is below the job's elastic.min {least}", _allowed(nearest), infeasible=True)
    if elastic.max is not None:
        most = Shape.parse(elastic.max)
        if not most.covers(shape):
            nearest = Shape(min(shape.learners, most.learners), min(shape.actors, most.actors))
            raise RefusedError(f"{shape} is above the job's elastic.max {most}", _allowed(nearest), infeasible=True)


def _allowed(nearest: Shape) -> str:
    return f"the nearest shape that the job allows is {nearest}"
