"""Advantages, n-step returns and V-trace targets against vectors computed by hand.

One fragment of five steps and four environments. All numbers are chosen so that every result is exact. γ = λ = ½, so
γλ = ¼. In each environment the first episode ends in step 1 (counted from 0); what happens then differs:

    column 0: terminated, then a reset step (step 2 is no transition and holds numbers that must not matter)
    column 1: truncated, then a reset step
    column 2: terminated, reset within the same step (step 2 is the first of the next episode)
    column 3: truncated, reset within the same step

Steps 3 and 4 are alike everywhere, and the fragment ends within the second episode. The value of the true last
observation (step 1) is 7: it counts where the episode was truncated, and not where it terminated.
"""

from __future__ import annotations

import numpy as np

from runtime.algorithms.returns import gae, n_step, vtrace
from runtime.selfcheck.finding import Seen

COLUMNS = (
    "an episode that terminates, with a reset step",
    "an episode that is truncated, with a reset step",
    "an episode that terminates, reset in the same step",
    "an episode that is truncated, reset in the same step",
)
GAMMA = LAM = 0.5
N_STEPS = 3

_F32 = np.float32
REWARD = np.array([[1, 1, 1, 1], [2, 2, 2, 2], [99, 99, 3, 3], [4, 4, 4, 4], [8, 8, 8, 8]], _F32)
VALUE = np.array([[2, 2, 2, 2], [4, 4, 4, 4], [50, 50, 1, 1], [6, 6, 6, 6], [2, 2, 2, 2]], _F32)
NEXT_VALUE = np.array([[4, 4, 4, 4], [7, 7, 7, 7], [6, 6, 6, 6], [2, 2, 2, 2], [4, 4, 4, 4]], _F32)
RATIO = np.array([[0.5] * 4, [0.5] * 4, [2] * 4, [4] * 4, [2] * 4], _F32)  # π / μ of the action taken
TERMINATED = np.zeros((5, 4), np.bool_)
TERMINATED[1, [0, 2]] = True
TRUNCATED = np.zeros((5, 4), np.bool_)
TRUNCATED[1, [1, 3]] = True
VALID = np.ones((5, 4), np.bool_)
VALID[2, [0, 1]] = False
NEXT_OBS = np.repeat(np.arange(10, 15, dtype=_F32), 4).reshape(5, 4, 1)  # that of step t is 10 + t

# δ = r + γ·V(s')·(1 − terminated) − V(s):
#   δ0 = 1 + 4/2 − 2 = 1;  δ1 = 2 − 4 = −2 where terminated, 2 + 7/2 − 4 = 3/2 where truncated;
#   δ2 = 3 + 6/2 − 1 = 5 (columns 2, 3);  δ3 = 4 + 2/2 − 6 = −1;  δ4 = 8 + 4/2 − 2 = 8.
#
# GAE, A_t = δ_t + ¼·A_{t+1} within the episode:
#   A4 = 8;  A3 = −1 + 8/4 = 1;  A2 = 5 + 1/4 = 5.25, and 0 for the reset step;
#   A1 = δ1, for the episode ends;  A0 = 1 − 2/4 = 0.5 where terminated, 1 + 1.5/4 = 1.375 where truncated.
ADVANTAGE = np.array(
    [
        [0.5, 1.375, 0.5, 1.375],
        [-2.0, 1.5, -2.0, 1.5],
        [0.0, 0.0, 5.25, 5.25],
        [1.0, 1.0, 1.0, 1.0],
        [8.0, 8.0, 8.0, 8.0],
    ]
)

# n-step returns over up to three steps, Σ γ^k·r:
#   steps 0, 1: the episode's end stops them: 1 + 2/2 = 2, and 2;
#   step 2 (columns 2, 3): 3 + 4/2 + 8/4 = 7;  step 3: 4 + 8/2 = 8, where the fragment ends;  step 4: 8.
RETURN = np.array([[2, 2, 2, 2], [2, 2, 2, 2], [0, 0, 7, 7], [8, 8, 8, 8], [8, 8, 8, 8]], np.float64)
# The discount of the value there, γ^(steps taken): 0 where the episode terminated on the way.
DISCOUNT = np.array(
    [
        [0.0, 0.25, 0.0, 0.25],
        [0.0, 0.5, 0.0, 0.5],
        [0.0, 0.0, 0.125, 0.125],
        [0.25, 0.25, 0.25, 0.25],
        [0.5, 0.5, 0.5, 0.5],
    ]
)
# And where "there" is: the true successor of the last step taken, so 11 at the end of an episode, not a reset.
REACHED = np.array([[11] * 4, [11] * 4, [0, 0, 14, 14], [14] * 4, [14] * 4], np.float64)

# V-trace with ρ̄ = c̄ = 1: ρ = min(1, π/μ) = ½, ½, 1, 1, 1, and γ·c = γ·λ·min(1, π/μ) = ⅛, ⅛, ¼, ¼, ¼.
# e_t = v_t − V_t = ρ_t·δ_t + γ·c_t·e_{t+1} within the episode:
#   e4 = 8;  e3 = −1 + 8/4 = 1;  e2 = 5 + 1/4 = 5.25;  e1 = −2/2 = −1 where terminated, 1.5/2 = 0.75 where truncated;
#   e0 = 1/2 − 1/8 = 0.375 where terminated, 1/2 + 0.75/8 = 0.59375 where truncated.
# v = V + e, and 0 for the reset step:
TARGET = np.array(
    [
        [2.375, 2.59375, 2.375, 2.59375],
        [3.0, 4.75, 3.0, 4.75],
        [0.0, 0.0, 6.25, 6.25],
        [7.0, 7.0, 7.0, 7.0],
        [10.0, 10.0, 10.0, 10.0],
    ]
)
# q − V = δ_t + γ·λ·e_{t+1} within the episode: A0 = 1 − 1/4 = 0.75 or 1 + 0.75/4 = 1.1875; A1 = δ1; the rest as GAE,
# for their ratios are above the bounds.
V_TRACE_ADVANTAGE = np.array(
    [
        [0.75, 1.1875, 0.75, 1.1875],
        [-2.0, 1.5, -2.0, 1.5],
        [0.0, 0.0, 5.25, 5.25],
        [1.0, 1.0, 1.0, 1.0],
        [8.0, 8.0, 8.0, 8.0],
    ]
)

_CLOSE = 1e-5  #: for the rounding of float32


def check_gae() -> Seen:
    """Generalised advantages."""
    advantage = gae(REWARD, VALUE, NEXT_VALUE, TERMINATED, TRUNCATED, VALID, gamma=GAMMA, lam=LAM)
    return _compared({"advantages": (advantage, ADVANTAGE)}, np.ones_like(VALID))


def check_n_step() -> Seen:
    """n-step returns, their discounts, and the observations that they end at."""
    targets = n_step(REWARD, NEXT_OBS, TERMINATED, TRUNCATED, VALID, gamma=GAMMA, steps=N_STEPS)
    pairs = {
        "returns": (targets.ret_TB, RETURN),
        "discounts": (targets.discount_TB, DISCOUNT),
        "observations reached": (targets.next_obs_TB[..., 0], REACHED),
    }
    return _compared(pairs, VALID)  # what a reset step gets is never used


def check_v_trace() -> Seen:
    """V-trace targets and advantages."""
    traced = vtrace(
        REWARD, VALUE, NEXT_VALUE, np.log(RATIO), TERMINATED, TRUNCATED, VALID, gamma=GAMMA, lam=LAM
    )  # fmt: skip
    pairs = {"targets": (traced.target_TB, TARGET), "advantages": (traced.advantage_TB, V_TRACE_ADVANTAGE)}
    return _compared(pairs, np.ones_like(VALID))


def _compared(pairs: dict[str, tuple[np.ndarray, np.ndarray]], cells: np.ndarray) -> Seen:
    """The first column of any of the arrays that is not as computed by hand, in words."""
    for what, (seen, expected) in pairs.items():
        wrong = cells & ~np.isclose(seen, expected, rtol=0.0, atol=_CLOSE)
        if wrong.any():
            column = int(np.flatnonzero(wrong.any(axis=0))[0])
            steps = ", ".join(map(str, np.flatnonzero(wrong[:, column])))
            return Seen(
                False, f"{what} of {COLUMNS[column]} differ in step {steps}", _row(expected[:, column]),
                _row(seen[:, column]),
            )  # fmt: skip
    return Seen(True, f"{', '.join(pairs)} equal those computed by hand, at termination and at truncation")


def _row(values: np.ndarray) -> str:
    return " ".join(f"{value:.5g}" for value in values)
