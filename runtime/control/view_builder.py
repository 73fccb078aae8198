"""The RunView, made from what the reports say and what the coordinator knows. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from runtime.contract.shape import Shape
from runtime.contract.states import ComponentState, Role, RunState
from runtime.contract.view import (
    Bottleneck,
    Checkpoints,
    ComponentView,
    Event,
    Freshness,
    HostView,
    Lag,
    Predicted,
    Rates,
    Reward,
    RunView,
    ShapeView,
)  # fmt: skip
from runtime.freshness.critical_path import critical_path
from runtime.freshness.measures import flow_ratio, lag_statistics, staleness_ratio

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from runtime.contract.messages import ComponentReport
    from runtime.contract.plan import Placement, Plan
    from runtime.control.fold import Fold

LEAST_SPAN_S = 0.5  #: over a shorter time a single fragment makes a rate of millions
SILENT_AFTER_S = 3.0  #: a node that has not reported for this long is shown as silent


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the coordinator itself knows, at the moment of the view."""

    run_id: str
    name: str
    attempt: int
    state: RunState
    reason: str
    started_at: datetime
    updated_at: datetime
    elapsed_s: float
    checkpoints: Checkpoints
    events: tuple[Event, ...]
    now: float  #: monotonic, as in `Fold.take`


def build_view(plan: Plan, fold: Fold, facts: Facts) -> RunView:
    """The one picture of the run."""
    return RunView(
        run_id=facts.run_id,
        name=facts.name,
        state=facts.state,
        reason=facts.reason,
        shape=ShapeView(wanted=plan.shape, present=present_shape(fold)),
        attempt=facts.attempt,
        started_at=facts.started_at,
        updated_at=facts.updated_at,
        elapsed_s=round(facts.elapsed_s, 3),
        progress=fold.progress,
        reward=_reward(fold),
        rates=rates(fold),
        predicted=Predicted(env_steps_per_s=plan.predicted.env_steps_per_s, samples_per_s=plan.predicted.samples_per_s),
        freshness=freshness(plan, fold),
        samples=fold.samples()[0],
        bottleneck=bottleneck(plan, fold),
        checkpoints=facts.checkpoints,
        components=tuple(_component(placement, fold.reports.get(placement.name)) for placement in plan.placements),
        hosts=tuple(_host(host.name, fold.heard_at.get(host.name), facts.now) for host in plan.hosts),
        events=facts.events,
    )


def present_shape(fold: Fold) -> str:
    """Learners and actors that are working now, as `L1A2`; `L0A0` is possible here."""
    working = {
        role: sum(report.state is ComponentState.RUNNING for report in fold.of_role(role))
        for role in (Role.LEARNER, Role.ACTOR)
    }
    return f"L{working[Role.LEARNER]}A{working[Role.ACTOR]}"


def _reward(fold: Fold) -> Reward:
    rewards = fold.rewards
    evaluators = [report.gauges for report in fold.of_role(Role.EVALUATOR) if "reward_eval" in report.gauges]
    gauges = evaluators[0] if evaluators else {}
    version = gauges.get("reward_eval_version")
    return Reward(
        mean_100=rewards.mean_100,
        best_mean_100=rewards.best,
        episodes=fold.progress.episodes,
        mean=rewards.mean,
        history=rewards.history,
        evaluation_mean=gauges.get("reward_eval"),
        evaluation_version=None if version is None else int(version),
    )


def rates(fold: Fold) -> Rates:
    """Growth per second over the window; 0 until it is long enough to mean something."""
    span, growth = fold.window.span_s, fold.window.growth()
    if span < LEAST_SPAN_S:
        return Rates()
    return Rates(
        env_steps_per_s=growth.env_steps / span,
        samples_per_s=growth.samples_trained / span,
        updates_per_s=growth.updates / span,
    )


def freshness(plan: Plan, fold: Fold) -> Freshness:
    """Over the window; zeros until something was trained on."""
    growth = fold.window.growth()
    histogram = np.asarray(growth.lag_histogram, np.int64)
    lag = lag_statistics(histogram)
    return Freshness(
        pool_ratio=plan.sizes.pool_ratio,
        flow_ratio=flow_ratio(growth.samples_trained, growth.samples_produced),
        version_lag=Lag(mean=lag.mean, p50=lag.p50, p95=lag.p95, max=lag.max),
        staleness_ratio=staleness_ratio(histogram, plan.job.algorithm.max_lag),
    )


def bottleneck(plan: Plan, fold: Fold) -> Bottleneck:
    """Formula (1) over the newest gauges; N_A is the largest number of actors that one buffer serves."""
    shape = Shape.parse(plan.shape)
    t_sp_s = mean_gauge(fold.of_role(Role.ACTOR), "t_sp_s")
    t_rv_s = mean_gauge(fold.of_role(Role.BUFFER), "t_rv_s")
    actors = shape.actors_of_group(0)
    busy = mean_gauge(fold.of_role(Role.LEARNER), "busy_share")
    path = critical_path(t_sp_s=t_sp_s, t_rv_s=t_rv_s, num_actors=actors, learner_busy=busy)
    return Bottleneck(side=path.side, t_sp_s=t_sp_s, t_rv_s=t_rv_s, n_actors=actors, advice=path.advice)


def mean_gauge(reports: Iterable[ComponentReport], name: str) -> float | None:
    """Mean over the working components that have set this gauge; none where none has."""
    values = [r.gauges[name] for r in reports if r.state is ComponentState.RUNNING and name in r.gauges]
    return sum(values) / len(values) if values else None


def _component(placement: Placement, report: ComponentReport | None) -> ComponentView:
    if report is None:
        return ComponentView(
            name=placement.name,
            role=placement.role,
            host=placement.host,
            cores=placement.cores,
            state=ComponentState.PENDING,
            reason="not reported yet",
        )
    return ComponentView(
        name=placement.name,
        role=placement.role,
        host=placement.host,
        pid=report.pid,
        cores=placement.cores,
        state=report.state,
        reason=report.reason,
        attempt=report.attempt,
        restarts=report.restarts,
        heartbeat_age_s=report.beat_age_s,
        cpu_percent=report.cpu_percent,
        rss_bytes=report.rss_bytes,
        gauges=report.gauges,
    )


def _host(name: str, heard_at: float | None, now: float) -> HostView:
    if heard_at is None:
        return HostView(name=name, state="waiting")
    age = max(0.0, now - heard_at)
    # One machine has one clock: its offset to itself is nothing.
    state = "silent" if age > SILENT_AFTER_S else "connected"
    return HostView(name=name, state=state, heartbeat_age_s=round(age, 3), clock_offset_s=0.0)
