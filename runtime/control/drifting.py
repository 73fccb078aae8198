"""Whether a run still goes as its plan predicted, and whose cost has changed if not. Pure: `now` is passed in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import exp, log
from typing import TYPE_CHECKING

from runtime.contract.predicting import rates_of_all
from runtime.contract.states import Role
from runtime.contract.view import Drift

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runtime.contract.plan import Plan
    from runtime.contract.rates import HostRates
    from runtime.control.observed import Observed, Others

BEYOND = log(1.25)  #: a quarter off, in either direction
WITHIN = log(1.15)  #: as predicted again: less than where it began, so that it does not flicker
HOLDS_S = 20.0  #: for so long on end
REASONS_EVERY_S = 10.0  #: while it drifts the cause may become another
SETTLES_S = 20.0  #: after a change of the plan, until the rates of the new one are known


@dataclass(frozen=True, slots=True)
class Memory:
    """What was seen so far."""

    revision: int = 0
    changed_at: float = 0.0
    drift: Drift = field(default_factory=Drift)
    turning_since: float | None = None  #: since when the rates have spoken against `drift.drifting`
    reasoned_at: float = 0.0  #: when the cause of a drift was looked for last


@dataclass(frozen=True, slots=True)
class Turned:
    """The run has begun to drift, or goes as predicted again."""

    drifting: bool
    message: str


def look(
    memory: Memory,
    plan: Plan,
    samples_per_s: float,
    observed: Observed,
    *,
    training: bool,
    now: float,
) -> tuple[Memory, Turned | None]:
    """What follows from the measured rate at `now`; `training`: the run is running, with all that it should have.

    `observed` is asked what components cost, when there is something to explain.
    """
    if plan.revision != memory.revision:
        return Memory(revision=plan.revision, changed_at=now), None
    if not training:
        return replace(memory, changed_at=now, turning_since=None), None
    expected = plan.predicted.samples_per_s
    if not expected or samples_per_s <= 0 or now - memory.changed_at < SETTLES_S:
        return memory, None
    off = log(samples_per_s / expected)
    drifting = memory.drift.drifting
    if drifting and now - memory.reasoned_at >= REASONS_EVERY_S:
        memory = replace(memory, drift=_because(memory.drift, plan, observed), reasoned_at=now)
    drift = Drift(ratio=exp(off), drifting=drifting, reason=memory.drift.reason if drifting else "")
    turning = abs(off) < WITHIN if drifting else abs(off) > BEYOND
    since = memory.turning_since
    if not turning:
        return replace(memory, drift=drift, turning_since=None), None
    if since is None or now - since < HOLDS_S:
        return replace(memory, drift=drift, turning_since=now if since is None else since), None
    if drifting:
        calm = Drift(ratio=exp(off))
        return replace(memory, drift=calm, turning_since=None), Turned(False, f"as predicted again: {_told(off)}")
    found = _because(Drift(ratio=exp(off), drifting=True), plan, observed)
    message = f"{samples_per_s:,.0f} samples/s instead of {expected:,.0f} ({_told(off)}): {found.reason}"
    return replace(memory, drift=found, turning_since=None, reasoned_at=now), Turned(True, message)


def _because(drift: Drift, plan: Plan, observed: Observed) -> Drift:
    return drift.model_copy(update={"reason": cause(plan, observed.rates(), observed.others())})


def cause(plan: Plan, observed: Mapping[str, HostRates], others: Others | None = None) -> str:
    """Strangers on a component's core, else whose cost is furthest from what was planned with; in words."""
    if others is not None and others.matter:
        return others.told
    planned = rates_of_all(plan)
    found = [
        (abs(log(after / before)), host, what, after / before)
        for host in sorted(observed.keys() & planned.keys())
        for what, before, after in _costs(plan, host, planned[host], observed[host])
        if before > 0 and after > 0
    ]
    if not found:
        return "nothing is known of the costs of its parts yet"
    off, host, what, ratio = max(found)
    if off < WITHIN:
        return "its parts cost what was planned with, so they wait for each other, or for cores that others use"
    return (
        f"{what} on {host} takes {ratio:.2g} × the time that was planned with; tianjictl profile --refresh measures it"
    )


def _costs(plan: Plan, host: str, before: HostRates, after: HostRates) -> Iterator[tuple[str, float, float]]:
    """(what, seconds planned with, seconds now)."""
    placed = plan.on(host)
    if any(p.role is Role.ACTOR for p in placed):
        yield "a step of an actor", 1.0 / before.actor_steps_per_s, 1.0 / after.actor_steps_per_s
    threads = max((p.threads for p in placed if p.role is Role.LEARNER), default=0)
    if threads:
        old, new = before.learner_on(threads).samples_per_s, after.learner_on(threads).samples_per_s
        yield "a sample of a learner", 1.0 / old, 1.0 / new
        yield "receiving a step", before.receive_s_per_step, after.receive_s_per_step


def _told(off: float) -> str:
    return f"{exp(off) - 1.0:+.0%}"
