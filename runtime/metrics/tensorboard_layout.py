"""Pages of charts for TensorBoard's "Custom scalars": what to look at first, put together from single curves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lines:
    """Curves in one chart; each tag is a regular expression."""

    title: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Band:
    """One curve with the band that it lies in."""

    title: str
    value: str
    lower: str
    upper: str


PAGES: tuple[tuple[str, tuple[Lines | Band, ...]], ...] = (
    (
        "Overview",
        (
            Lines("Return", ("reward/mean_100", "reward/best_mean_100", "evaluator/reward_eval")),
            Lines("Env steps per second", ("rates/env_steps_per_s", "rates/predicted_env_steps_per_s")),
            Lines("Samples per second", ("rates/samples_per_s", "rates/predicted_samples_per_s")),
            Band(
                "Version lag: median, 5 % to 95 %",
                "freshness/version_lag_p50",
                "freshness/version_lag_p05",
                "freshness/version_lag_p95",
            ),
            Lines(
                "Ledger of samples",
                (
                    "samples/produced",
                    "samples/consumed",
                    "samples/dropped_stale",
                    "samples/dropped_other",
                    "samples/in_flight",
                ),
            ),
            Lines("Busy", ("learner/busy_share", "buffer/busy_share", "actor/busy_share")),
        ),
    ),
    (
        "Learning",
        (
            Lines("Loss", ("learner/loss", "learner/[^/]+/loss")),
            Lines("Parts of the loss", ("learner/policy_loss", "learner/value_loss")),
            Lines("Entropy, exploration", ("learner/entropy", "actor/epsilon")),
            Lines("Divergence, clipped share", ("learner/kl", "learner/clip_share")),
            Lines("Gradient norm", ("learner/grad_norm", "learner/[^/]+/grad_norm")),
            Lines("Learning rate", ("learner/learning_rate",)),
        ),
    ),
    (
        "Machine",
        (
            Lines("Components that work", ("components/learners", "components/actors", "components/hosts")),
            Lines("Restarts", ("components/restarts",)),
            Lines("Ratios", ("freshness/pool_ratio", "freshness/flow_ratio", "freshness/staleness_ratio")),
            Lines("Seconds for a fragment", ("actor/t_sp_s", "buffer/t_rv_s")),
        ),
    ),
)
