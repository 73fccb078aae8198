"""The PPO objective and its gradient with respect to the networks' outputs. Legend: N samples, A actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from runtime.models.distributions import Picks, log_softmax

if TYPE_CHECKING:
    from runtime.models.arrays import Floats, Ints


class PolicyLoss(NamedTuple):
    loss: float  #: −mean min(r·A, clip(r)·A) − entropy coefficient × entropy
    surrogate: float
    entropy: float
    kl: float  #: mean((r − 1) − log r): Schulman's k3 estimate of KL(behaviour, current)
    clip_share: float  #: share of samples with |r − 1| above the clip range
    grad_NA: Floats  #: d loss / d logits


def policy_loss(
    logits_NA: Floats, action_N: Ints, behaviour_logp_N: Floats, advantage_N: Floats, *, clip: float, entropy: float
) -> PolicyLoss:
    """Clipped surrogate with r = π(a|s) / behaviour(a|s).

    d logp / d logits = onehot(a) − p, and dH / d logits = −p·(log p + H). A sample's surrogate has no gradient where
    the clipped term is the smaller one.
    """
    n = len(action_N)
    taken = Picks(action_N)
    log_probs_NA = log_softmax(logits_NA)
    probs_NA = np.exp(log_probs_NA)
    log_ratio_N = taken.of(log_probs_NA) - behaviour_logp_N
    ratio_N = np.exp(log_ratio_N)
    free_N = ratio_N * advantage_N
    clipped_N = np.minimum(np.maximum(ratio_N, 1.0 - clip), 1.0 + clip) * advantage_N
    active_N = free_N <= clipped_N
    surrogate_N = np.where(active_N, free_N, clipped_N)
    entropy_N = -(probs_NA * log_probs_NA).sum(axis=1)

    slope_N = np.where(active_N, free_N, np.float32(0.0)) * np.float32(-1.0 / n)
    grad_NA = probs_NA * -slope_N[:, None]
    taken.add_to(grad_NA, slope_N)
    if entropy:
        grad_NA += np.float32(entropy / n) * probs_NA * (log_probs_NA + entropy_N[:, None])
    mean_entropy = float(entropy_N.sum()) / n
    mean_surrogate = -float(surrogate_N.sum()) / n
    return PolicyLoss(
        loss=mean_surrogate - entropy * mean_entropy,
        surrogate=mean_surrogate,
        entropy=mean_entropy,
        kl=float((ratio_N - log_ratio_N).sum()) / n - 1.0,
        clip_share=float(np.count_nonzero(np.abs(ratio_N - 1.0) > clip)) / n,
        grad_NA=grad_NA,
    )


class ValueLoss(NamedTuple):
    loss: float
    grad_N: Floats  #: d loss / d value


def value_loss(value_N: Floats, return_N: Floats, old_value_N: Floats, *, clip: float | None) -> ValueLoss:
    """Mean of ½·(V − return)²; with `clip`, of the larger of that and the one with V held within ±clip of the old one.

    Where the held one is larger and V lies outside, there is no gradient.
    """
    n = len(value_N)
    error_N = value_N - return_N
    square_N = error_N * error_N
    if clip is None:
        return ValueLoss(0.5 * float(square_N.sum()) / n, error_N * np.float32(1.0 / n))
    moved_N = value_N - old_value_N
    held_error_N = old_value_N + np.minimum(np.maximum(moved_N, -clip), clip) - return_N
    held_square_N = held_error_N * held_error_N
    free_N = square_N >= held_square_N
    inside_N = np.abs(moved_N) <= clip
    grad_N = np.where(free_N, error_N, np.where(inside_N, held_error_N, np.float32(0.0))) * np.float32(1.0 / n)
    return ValueLoss(0.5 * float(np.where(free_N, square_N, held_square_N).sum()) / n, grad_N)
