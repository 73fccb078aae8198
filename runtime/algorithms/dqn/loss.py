"""The DQN target and loss, and the loss's gradient. Legend: N samples, A actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from runtime.models.arrays import Floats, Ints


def targets(ret_N: Floats, discount_N: Floats, next_target_NA: Floats, next_online_NA: Floats | None) -> Floats:
    """y = ret + discount × Q_target(s', a*) [N].

    a* is the best action of the online network where its values are given (double DQN), else of the target itself.
    """
    chooser_NA = next_target_NA if next_online_NA is None else next_online_NA
    best_N = chooser_NA.argmax(axis=1)
    value_N: Floats = next_target_NA[np.arange(len(best_N)), best_N]
    return ret_N + discount_N * value_N


class TdLoss(NamedTuple):
    loss: float
    error_N: Floats  #: Q(s, a) − y
    grad_NA: Floats  #: d loss / d Q


def td_loss(q_NA: Floats, action_N: Ints, target_N: Floats, weight_N: Floats, *, huber: float | None) -> TdLoss:
    """Weighted mean of the Huber loss (½e² up to |e| = huber, then linear; ½e² throughout if none)."""
    n = len(action_N)
    rows_N = np.arange(n)
    error_N = q_NA[rows_N, action_N] - target_N
    if huber is None:
        slope_N = error_N
        loss_N = 0.5 * error_N * error_N
    else:
        slope_N = np.minimum(np.maximum(error_N, -huber), huber)
        loss_N = slope_N * (error_N - 0.5 * slope_N)
    grad_NA = np.zeros_like(q_NA)
    grad_NA[rows_N, action_N] = slope_N * weight_N * np.float32(1.0 / n)
    return TdLoss(float((loss_N * weight_N).sum()) / n, error_N, grad_NA)
