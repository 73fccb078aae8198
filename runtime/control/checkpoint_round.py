"""One checkpoint from request to verdict, judged from the reports. Pure.

Learners and buffers must write their shards; an actor's shard (its random stream) is taken along if it comes soon, and
so is the shard of who leaves the run. A shard of another node counts once it has arrived at the head.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from runtime.contract.messages import ComponentReport
from runtime.contract.model import View
from runtime.contract.plan import Plan
from runtime.contract.states import ComponentState, Role

ACTOR_PATIENCE_S = 0.5  #: waited for actors once learners and buffers are done
_KEEPERS_OF_STATE = (Role.LEARNER, Role.BUFFER)
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
    shipped: tuple[str, ...] = ()  #: those of both whose shard counts by its being in the head's folder
    written: tuple[str, ...] = ()  #: those of both that were done before the round began
    needed_done_at: float | None = None

    @classmethod
    def of(cls, plan: Plan, step: int, event: str, now: float) -> Round:
        saving = [p for p in plan.placements if p.role in (*_KEEPERS_OF_STATE, Role.ACTOR)]
        needed = [p for p in saving if p.role in _KEEPERS_OF_STATE and not p.leaving]
        return cls(
            step=step,
            event=event,
            began_at=now,
            needed=tuple(p.name for role in _KEEPERS_OF_STATE for p in needed if p.role is role),
            welcome=tuple(p.name for p in saving if p not in needed),
            shipped=tuple(p.name for p in saving if p.host != plan.head),
        )

    @classmethod
    def of_orphans(cls, plan: Plan, step: int, event: str, now: float) -> Round:
        """What the head's guardian says is written there, to which other nodes have to add theirs."""
        whole = cls.of(plan, step, event, now)
        return whole.model_copy(update={"written": tuple(p.name for p in plan.on(plan.head))})

    def without(self, names: Collection[str]) -> Round:
        """The round where these are no longer part of the run."""
        needed = tuple(name for name in self.needed if name not in names)
        welcome = tuple(name for name in self.welcome if name not in names)
        return self.model_copy(update={"needed": needed, "welcome": welcome})


@dataclass(frozen=True, slots=True)
class _Shards:
    """What is known of who has written."""

    reports: Mapping[str, ComponentReport]
    arrived: Collection[str]
    away: Collection[str]

    def has(self, name: str, current: Round) -> bool:
        """Whether the shard of this component is where it must be."""
        if name in current.written:
            return True
        if name in current.shipped:
            return name in self.arrived
        report = self.reports.get(name)
        return report is not None and report.checkpoint_done >= current.step

    def lost(self, name: str, current: Round) -> str | None:
        """Why it will not come, if so."""
        report = self.reports.get(name)
        if name in self.away:
            return f"{name} is on a node that is lost"
        wrote = (
            report is not None and report.checkpoint_done >= current.step
        )  # it is on its way, though its writer left
        over = report is not None and report.state in _OVER
        return f"{name} is {report.state}: {report.reason}" if report is not None and over and not wrote else None


def judge(
    current: Round,
    reports: Mapping[str, ComponentReport],
    *,
    now: float,
    limit_s: float,
    arrived: Collection[str] = (),
    away: Collection[str] = (),
) -> tuple[Round, Verdict, str]:
    """The round, its verdict, and the reason if it failed.

    `arrived`: components whose shard is in the head's folder; `away`: those whose node is lost.
    """
    shards = _Shards(reports, arrived, away)
    missing = [name for name in current.needed if not shards.has(name, current)]
    for name in missing:
        if (reason := shards.lost(name, current)) is not None:
            return current, Verdict.FAILED, reason
    if missing:
        if now - current.began_at > limit_s:
            return current, Verdict.FAILED, f"{', '.join(missing)} wrote no shard within {limit_s:g} s"
        return current, Verdict.WAITING, ""
    if current.needed_done_at is None:
        current = current.model_copy(update={"needed_done_at": now})
    assert current.needed_done_at is not None
    late = now - current.needed_done_at >= ACTOR_PATIENCE_S
    if late or not list(_awaited(current, shards)):
        return current, Verdict.WHOLE, ""
    return current, Verdict.WAITING, ""


def _awaited(current: Round, shards: _Shards) -> Iterable[str]:
    for name in current.welcome:
        report = shards.reports.get(name)
        running = report is not None and report.state is ComponentState.RUNNING
        if running and name not in shards.away and not shards.has(name, current):
            yield name
