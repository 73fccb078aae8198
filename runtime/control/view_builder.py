"""The RunView, made from what the reports say and what the coordinator knows. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from runtime.contract.states import ComponentState, Role, RunState
from runtime.contract.view import (
    Advice,
    Bottleneck,
    Checkpoints,
    ComponentView,
    Drift,
    Event,
    Freshness,
    HostCosts,
    HostView,
    Lag,
    LinkView,
    Predicted,
    Rates,
    Reward,
    RunView,
    ShapeView,
    mean_gauge,
)  # fmt: skip
from runtime.freshness.critical_path import critical_path
from runtime.freshness.lags import LAG_EDGES
from runtime.freshness.measures import flow_ratio, lag_statistics, staleness_ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from runtime.contract.messages import ComponentReport
    from runtime.contract.plan import HostPlan, Placement, Plan
    from runtime.control.fold import Fold
    from runtime.control.links import Link
    from runtime.control.nodes import Node

LEAST_SPAN_S = 0.5  #: over a shorter time a single fragment makes a rate of millions
SILENT_AFTER_S = 3.0  #: a head whose agent has not reported for this long is said to be silent
_LINK_STATES = {"opening": "joining"}  #: words of the machine that viewers need not know


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
    nodes: Mapping[str, Node] = field(default_factory=dict)
    links: Mapping[tuple[str, str], Link] = field(default_factory=dict)
    drift: Drift = field(default_factory=Drift)
    advice: Advice | None = None


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
        predicted=_predicted(plan),
        freshness=freshness(plan, fold),
        samples=fold.samples()[0],
        bottleneck=bottleneck(plan, fold),
        drift=facts.drift,
        costs=tuple(
            HostCosts(
                host=host,
                rates=rates,
                profile_key=plan.profile_keys.get(host),
                num_envs=plan.sizes.num_envs,
                batch_size=plan.sizes.batch_size,
            )
            for host, rates in fold.observed.rates().items()
        ),
        advice=facts.advice,
        checkpoints=facts.checkpoints,
        components=(*(_component(placement, fold) for placement in plan.placements), *_couriers(plan, fold)),
        hosts=tuple(_host(host, plan, fold, facts) for host in plan.hosts),
        links=tuple(_links(plan, fold, facts)),
        events=facts.events,
    )


def _predicted(plan: Plan) -> Predicted:
    expected = plan.predicted
    return Predicted(
        env_steps_per_s=expected.env_steps_per_s,
        samples_per_s=expected.samples_per_s,
        updates_per_s=expected.updates_per_s,
        bottleneck=expected.bottleneck,
        explanation=expected.explanation,
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
    """Growth per second; 0 until it was watched for long enough to mean something."""
    if fold.lags.span_s < LEAST_SPAN_S:
        return Rates()
    return Rates(
        env_steps_per_s=fold.paces.per_s("env_steps", fold.now),
        samples_per_s=fold.paces.per_s("samples_trained", fold.now),
        updates_per_s=fold.paces.per_s("updates", fold.now),
    )


def freshness(plan: Plan, fold: Fold) -> Freshness:
    """Over the window; zeros until something was trained on."""
    histogram = np.asarray(fold.lags.growth(), np.int64)
    trained, made = (fold.paces.per_s(counter, fold.now) for counter in ("samples_trained", "env_steps"))
    lag = lag_statistics(histogram)
    return Freshness(
        pool_ratio=plan.sizes.pool_ratio,
        flow_ratio=flow_ratio(trained, made),
        version_lag=Lag(mean=lag.mean, p50=lag.p50, p95=lag.p95, max=lag.max),
        staleness_ratio=staleness_ratio(histogram, plan.job.algorithm.max_lag),
        lag_bins=tuple((int(LAG_EDGES[bin_]), int(histogram[bin_])) for bin_ in np.flatnonzero(histogram)),
    )


def bottleneck(plan: Plan, fold: Fold) -> Bottleneck:
    """Formula (1) over the newest gauges; N_A is the largest number of actors that one buffer serves."""
    t_sp_s = mean_gauge(fold.of_role(Role.ACTOR), "t_sp_s")
    t_rv_s = mean_gauge(fold.of_role(Role.BUFFER), "t_rv_s")
    actors = max((_actors(plan, group) for group in plan.groups), default=0)
    busy = mean_gauge(fold.of_role(Role.LEARNER), "busy_share")
    crowd = fold.observed.others()
    others = crowd.told if crowd is not None and crowd.matter else ""
    path = critical_path(t_sp_s=t_sp_s, t_rv_s=t_rv_s, num_actors=actors, learner_busy=busy, others=others)
    return Bottleneck(side=path.side, t_sp_s=t_sp_s, t_rv_s=t_rv_s, n_actors=actors, advice=path.advice)


def _actors(plan: Plan, group: int) -> int:
    return sum(not actor.leaving for actor in plan.group_of(group, Role.ACTOR))


def _component(placement: Placement, fold: Fold) -> ComponentView:
    state, reason = fold.state_of(placement)
    report = fold.reports.get(placement.name)
    if report is None:
        return ComponentView(
            name=placement.name,
            role=placement.role,
            host=placement.host,
            cores=placement.cores,
            state=state,
            reason=reason,
        )
    if placement.leaving:
        reason = f"leaving: {reason}"
    return _reported(report, placement.host, placement.cores).model_copy(update={"reason": reason})


def _couriers(plan: Plan, fold: Fold) -> Iterable[ComponentView]:
    for host in plan.hosts:
        for report in fold.couriers.get(host.name, ()):
            yield _reported(report, host.name, ())


def _reported(report: ComponentReport, host: str, cores: tuple[int, ...]) -> ComponentView:
    return ComponentView(
        name=report.name,
        role=report.role,
        host=host,
        pid=report.pid,
        cores=cores,
        state=report.state,
        reason=report.reason,
        attempt=report.attempt,
        restarts=report.restarts,
        heartbeat_age_s=report.beat_age_s,
        cpu_percent=report.cpu_percent,
        waiting_percent=report.waiting_percent,
        throttled_percent=report.throttled_percent,
        rss_bytes=report.rss_bytes,
        gauges=report.gauges,
    )


def _host(host: HostPlan, plan: Plan, fold: Fold, facts: Facts) -> HostView:
    head, heard_at = host.name == plan.head, fold.heard_at.get(host.name)
    node = facts.nodes.get(host.name)
    age = None if heard_at is None else round(max(0.0, facts.now - heard_at), 3)
    state, reason = (node.state, node.reason) if node is not None else ("waiting", "")
    if head and state == "lost" and age is not None:
        # The coordinator runs there: the node is as well as it is, only its agent says nothing.
        state, reason = "connected", f"its agent has not reported for {age:.1f} s"
    return HostView(
        name=host.name,
        state=state,
        heartbeat_age_s=age,
        # One machine has one clock: its offset to itself is nothing.
        clock_offset_s=None if heard_at is None else 0.0 if head or node is None else node.offset_s,
        reason="leaving the run" if host.leaving and not reason else reason,
        cores=host.cores,
        head=head,
    )


def _links(plan: Plan, fold: Fold, facts: Facts) -> Iterable[LinkView]:
    """One a direction, as the end that sends sees it."""
    slow = {host.name for host in plan.hosts if host.wan}
    for (first, second), link in sorted(facts.links.items()):
        for source, target in ((first, second), (second, first)):
            report = next((r for r in fold.links.get(source, ()) if r.peer == target), None)
            up = report is not None and link.state == "up"
            yield LinkView(
                source=source,
                target=target,
                transport=report.transport if report is not None else "unknown",
                mb_per_s=round(report.sent_per_s / 1e6, 3) if report is not None and up else 0.0,
                state=_LINK_STATES.get(link.state, link.state),
                reason=link.reason,
                why=report.why if report is not None else "",
                wan=bool(slow & {first, second}),
                sent_bytes=report.sent if report is not None else 0,
                saved_bytes=max(0, report.sent_raw - report.sent) if report is not None else 0,
                joins=report.joins if report is not None else 0,
            )
