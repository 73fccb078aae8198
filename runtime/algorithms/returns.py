"""Advantages, V-trace targets and n-step returns over fragments. Legend: T time, B environments.

`terminated` ends an episode for good (its future is worth 0); `truncated` cuts it off (its future is worth
V(true successor)). Both end the recursion. Cells that are not `valid` are no transitions at all (the reset step of
next-step autoreset): nothing flows through them, and their own results are 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from runtime.models.arrays import Array, Bools, Floats


def gae(
    reward_TB: Floats,
    value_TB: Floats,
    next_value_TB: Floats,
    terminated_TB: Bools,
    truncated_TB: Bools,
    valid_TB: Bools,
    *,
    gamma: float,
    lam: float,
) -> Floats:
    """Generalised advantage estimates [T, B] (Schulman et al. 2016).

    δ = r + γ·V(s')·(1 − terminated) − V(s);  A_t = δ_t + γ·λ·A_{t+1} while the episode goes on, else δ_t.
    """
    bootstrap_TB = np.where(terminated_TB, np.float32(0.0), next_value_TB)
    delta_TB = np.where(valid_TB, reward_TB + np.float32(gamma) * bootstrap_TB - value_TB, np.float32(0.0))
    carry_TB = np.where(valid_TB & ~terminated_TB & ~truncated_TB, np.float32(gamma * lam), np.float32(0.0))
    advantage_TB = delta_TB.astype(np.float32, copy=False)
    for t in range(len(advantage_TB) - 2, -1, -1):
        advantage_TB[t] += carry_TB[t] * advantage_TB[t + 1]
    return advantage_TB


class VTrace(NamedTuple):
    """Value targets and advantages of the current policy, from steps that another one took."""

    target_TB: Floats  #: v_t, what V(s_t) is trained towards
    advantage_TB: Floats  #: q_t − V(s_t), without the first step's own ratio: the objective is multiplied by that


def vtrace(
    reward_TB: Floats,
    value_TB: Floats,
    next_value_TB: Floats,
    log_ratio_TB: Floats,
    terminated_TB: Bools,
    truncated_TB: Bools,
    valid_TB: Bools,
    *,
    gamma: float,
    lam: float,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
) -> VTrace:
    """V-trace (Espeholt et al. 2018). `log_ratio` is log π(a|s) − log μ(a|s): π the current policy, μ the actor's.

    v_t = V_t + ρ_t·δ_t + γ·c_t·(v_{t+1} − V_{t+1}) while the episode goes on, with δ as in `gae`, ρ = min(ρ̄, π/μ) and
    c = λ·min(c̄, π/μ). q_t = r_t + γ·(λ·v_{t+1} + (1 − λ)·V_{t+1}): where π = μ, the advantages are those of `gae`.
    """
    zero = np.float32(0.0)
    bootstrap_TB = np.where(terminated_TB, zero, next_value_TB)
    delta_TB = np.where(valid_TB, reward_TB + np.float32(gamma) * bootstrap_TB - value_TB, zero)
    log_ratio_TB = np.where(valid_TB, log_ratio_TB, zero)
    # The bounds are applied to the logarithm: a ratio that would overflow is above either of them.
    rho_TB = np.exp(np.minimum(log_ratio_TB, np.float32(np.log(rho_clip))))
    c_TB = np.exp(np.minimum(log_ratio_TB, np.float32(np.log(c_clip))))
    carry_TB = np.where(valid_TB & ~terminated_TB & ~truncated_TB, np.float32(gamma * lam), zero)
    error_TB = rho_TB * delta_TB  # becomes v − V
    carried_TB = carry_TB * c_TB
    for t in range(len(error_TB) - 2, -1, -1):
        error_TB[t] += carried_TB[t] * error_TB[t + 1]
    advantage_TB = delta_TB.astype(np.float32, copy=False)
    advantage_TB[:-1] += carry_TB[:-1] * error_TB[1:]
    return VTrace(np.where(valid_TB, value_TB + error_TB, zero), advantage_TB)


class NStep(NamedTuple):
    """n-step targets of each cell: y = ret + discount × value(next_obs)."""

    ret_TB: Floats
    discount_TB: Floats  #: γ^k, or 0 where the episode terminated within the k steps
    next_obs_TB: Array


def n_step(
    reward_TB: Floats,
    next_obs_TB: Array,
    terminated_TB: Bools,
    truncated_TB: Bools,
    valid_TB: Bools,
    *,
    gamma: float,
    steps: int,
) -> NStep:
    """Returns over up to `steps` steps within the fragment: fewer where it or the episode ends before."""
    last = len(reward_TB) - 1
    ret_TB = np.where(valid_TB, reward_TB, np.float32(0.0)).astype(np.float32)
    discount_TB = np.where(terminated_TB, np.float32(0.0), np.float32(gamma))
    goes_on_TB = valid_TB & ~terminated_TB & ~truncated_TB
    next_TB = next_obs_TB.copy()
    reaches_TB = goes_on_TB.copy()  # whether the window of t has not ended yet, k steps in
    for k in range(1, min(steps, last + 1)):
        head = slice(0, last + 1 - k)
        more_TB = reaches_TB[head] & valid_TB[k:]
        ret_TB[head] += np.where(more_TB, np.float32(gamma**k) * reward_TB[k:], np.float32(0.0))
        ends_TB = np.where(terminated_TB[k:], np.float32(0.0), np.float32(gamma ** (k + 1)))
        discount_TB[head] = np.where(more_TB, ends_TB, discount_TB[head])
        next_TB[head][more_TB] = next_obs_TB[k:][more_TB]
        reaches_TB[head] = more_TB & goes_on_TB[k:]
    return NStep(ret_TB, discount_TB, next_TB)
