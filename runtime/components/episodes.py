"""Returns and lengths of episodes that run on from one fragment into the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]


class Finished(NamedTuple):
    """Episodes that have ended: undiscounted returns, and lengths in steps."""

    returns: list[float]
    lengths: list[int]


class EpisodeTracker:
    """Sums rewards and steps of each environment; T steps, B environments.

    `reset_steps` is how many steps that are no transitions follow each end: 1 with next-step autoreset, else 0. Called
    once per fragment with everything cold in the caches, so it is few NumPy calls and a loop over the ends alone.
    """

    def __init__(self, rollout: int, num_envs: int, reset_steps: int) -> None:
        self._rollout = rollout
        self._reset_steps = reset_steps
        self._paid_BT = np.zeros((num_envs, rollout))
        self._sum_K = np.zeros(num_envs * rollout)
        self._since_B = np.zeros(num_envs)
        self._open_return_B = np.zeros(num_envs)
        self._began_B = [0] * num_envs  #: first step of the open episode, counted from this fragment's start

    @property
    def longest(self) -> int:
        """Steps so far in the longest of the unfinished episodes."""
        return -min(self._began_B)

    def add(self, reward_TB: npt.NDArray[np.float32], ended_TB: Bools, valid_TB: Bools) -> Finished:
        """Take a fragment; returns the episodes that ended in it, by environment and then by time."""
        rollout, reset_steps, began_B = self._rollout, self._reset_steps, self._began_B
        np.multiply(reward_TB.T, valid_TB.T, out=self._paid_BT)
        # One running sum over all environments, laid end to end: what an episode was paid is a difference of two sums.
        sum_K = np.cumsum(self._paid_BT, out=self._sum_K)
        total_B = sum_K[rollout - 1 :: rollout].copy()
        self._since_B[0] = 0.0
        self._since_B[1:] = total_B[:-1]
        self._since_B -= self._open_return_B
        since_B = self._since_B.tolist()
        end_N = (ended_TB & valid_TB).T.reshape(-1).nonzero()[0]
        env_N, step_N = np.divmod(end_N, rollout)
        returns: list[float] = []
        lengths: list[int] = []
        for env, step, paid in zip(env_N.tolist(), step_N.tolist(), sum_K[end_N].tolist(), strict=True):
            returns.append(paid - since_B[env])
            lengths.append(step + 1 - began_B[env])
            since_B[env] = paid
            began_B[env] = step + 1 + reset_steps
        np.subtract(total_B, since_B, out=self._open_return_B)
        self._began_B = [began - rollout for began in began_B]
        return Finished(returns, lengths)
