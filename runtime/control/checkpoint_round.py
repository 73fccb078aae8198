"""One checkpoint from request to verdict, judged from the reports. Pure.

Learners and buffers must write their shards; an actor's shard (its random stream) is taken along if it comes soon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from runtime.contract.messages import ComponentReport
from runtime.contract.model import View
from runtime.contract.plan import Plan
from runtime.contract.states import ComponentState, Role

ACTOR_PATIENCE_S = 0.5  #: waited for actors once learners and buffers are done
_OVER = (ComponentState.FAILED, ComponentState.EXITED)


class Verdict(Enum):
    """How a round stands."""

    WAITING = "waiting"
    WHOLE = "whole"  #: every shard that is needed is written
    FAILED = "failed"  #: one that is needed will not come


class Round(View):
    """A checkpoint being written. `event` is the log's line that asked for it; times are the coordinator's clock."""

    step: int
    event: str
    began_at: float
    needed: tuple[str, ...]
    welcome: tuple[str, ...]
    needed_done_at: float | None = None

    @classmethod
    def of(cls, plan: Plan, step: int, event: str, now: float) -> Round:
        names = {role: tuple(placement.name for placement in plan.of_role(role)) for role in Role}
        needed = (*names[Role.LEARNER], *names[Role.BUFFER])
        return cls(step=step, event=event, began_at=now, needed=needed, welcome=names[Role.ACTOR])


def judge(
    current: Round, reports: Mapping[str, ComponentReport], *, now: float, limit_s: float
) -> tuple[Round, Verdict, str]:
    """The round, its verdict, and the reason if it failed."""
    missing = []
    for name in current.needed:
        report = reports.get(name)
        if report is not None and report.checkpoint_done >= current.step:
            continue
        if report is not None and report.state in _OVER:
            return current, Verdict.FAILED, f"{name} is {report.state}: {report.reason}"
        missing.append(name)
    if missing:
        if now - current.began_at > limit_s:
            return current, Verdict.FAILED, f"{', '.join(missing)} wrote no shard within {limit_s:g} s"
        return current, Verdict.WAITING, ""
    if current.needed_done_at is None:
        current = current.model_copy(update={"needed_done_at": now})
    assert current.needed_done_at is not None
    late = now - current.needed_done_at >= ACTOR_PATIENCE_S
    if late or not list(_awaited(current, reports)):
        return current, Verdict.WHOLE, ""
    return current, Verdict.WAITING, ""


def _awaited(current: Round, reports: Mapping[str, ComponentReport]) -> Iterable[str]:
    for name in current.welcome:
        report = reports.get(name)
        if report is not None and report.state is ComponentState.RUNNING and report.checkpoint_done < current.step:
            yield name
