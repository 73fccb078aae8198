"""What is drawn of a run over its env steps: one flat table of names and numbers, made from the view. Pure.

The part before the first `/` groups the curves where they are shown. Their number does not grow with the run but for
its learners, and then only up to a bound.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from runtime.contract.states import ComponentState, Role
from runtime.contract.view import mean_gauge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.contract.view import ComponentView, RunView

#: Gauges that become curves: mean over the working components of that kind.
_MEANS = {
    Role.LEARNER: (
        "loss", "policy_loss", "value_loss", "entropy", "kl", "clip_share", "grad_norm", "q_mean", "learning_rate",
        "busy_share",
    ),
    Role.ACTOR: ("epsilon", "busy_share", "t_sp_s"),
    Role.BUFFER: ("replay_fill", "busy_share", "t_rv_s"),
    Role.EVALUATOR: ("reward_eval",),
}  # fmt: skip
#: Where there are several learners, these are drawn of each.
_OF_EACH = ("loss", "entropy", "kl", "grad_norm", "q_mean", "busy_share")
_MOST_LEARNERS = 16


def curves(view: RunView) -> dict[str, float]:
    """Every finite number that is drawn, by its name; what is not known is left out."""
    values = dict(_of_the_run(view))
    for role, names in _MEANS.items():
        components = [each for each in view.components if each.role is role]
        values |= {f"{role}/{name}": mean_gauge(components, name) for name in names}
    learners = [each for each in view.components if each.role is Role.LEARNER]
    if len(learners) > 1:
        for learner in learners[:_MOST_LEARNERS]:
            values |= {f"learner/{learner.name}/{name}": learner.gauges.get(name) for name in _OF_EACH}
    return {name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)}


def _of_the_run(view: RunView) -> Iterator[tuple[str, float | None]]:
    reward, measured, expected, fresh = view.reward, view.rates, view.predicted, view.freshness
    lag, samples = fresh.version_lag, view.samples
    yield "reward/mean_100", reward.mean_100
    yield "reward/best_mean_100", reward.best_mean_100
    yield "reward/mean", reward.mean
    yield "rates/env_steps_per_s", measured.env_steps_per_s
    yield "rates/samples_per_s", measured.samples_per_s
    yield "rates/updates_per_s", measured.updates_per_s
    yield "rates/predicted_env_steps_per_s", expected.env_steps_per_s
    yield "rates/predicted_samples_per_s", expected.samples_per_s
    yield "rates/predicted_updates_per_s", expected.updates_per_s
    yield "progress/updates", view.progress.updates
    yield "progress/episodes", view.progress.episodes
    yield "progress/version", view.progress.version
    yield "progress/elapsed_s", view.elapsed_s
    yield "freshness/pool_ratio", fresh.pool_ratio
    yield "freshness/flow_ratio", fresh.flow_ratio
    yield "freshness/staleness_ratio", fresh.staleness_ratio
    yield "freshness/version_lag_mean", lag.mean
    yield "freshness/version_lag_p05", lag_quantile(fresh.lag_bins, 0.05)
    yield "freshness/version_lag_p50", lag.p50
    yield "freshness/version_lag_p95", lag.p95
    yield "freshness/version_lag_max", lag.max
    yield "samples/produced", samples.produced
    yield "samples/consumed", samples.consumed
    yield "samples/dropped_stale", samples.dropped_stale
    yield "samples/dropped_other", samples.dropped_other
    yield "samples/in_flight", samples.in_flight
    yield "components/learners", len(_working(view, Role.LEARNER))
    yield "components/actors", len(_working(view, Role.ACTOR))
    yield "components/restarts", sum(each.restarts for each in view.components)
    yield "components/hosts", sum(host.state == "connected" for host in view.hosts)
    yield "checkpoints/complete", view.checkpoints.complete


def lag_quantile(bins: Sequence[tuple[int, int]], share: float) -> float | None:
    """The smallest lag of the bin in which this share of the samples is reached; none where there are no samples."""
    left = share * sum(count for _, count in bins)
    for smallest, count in sorted(bins):
        left -= count
        if left <= 0:
            return float(smallest)
    return None


def _working(view: RunView, role: Role) -> list[ComponentView]:
    return [each for each in view.components if each.role is role and each.state is ComponentState.RUNNING]
