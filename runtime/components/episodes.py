"""Returns and lengths of episodes that run on from one fragment into the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]


class Finished(NamedTuple):
    """Episodes that ended, in order of time: undiscounted returns and lengths in steps, [N] each."""

    returns_N: npt.NDArray[np.float64]
    lengths_N: npt.NDArray[np.float64]


class EpisodeTracker:
    """Sums rewards and steps of each environment; T steps, B environments, P the pair (reward, step).

    Rewards and steps go through the same operations together.
    """

    def __init__(self, rollout: int, num_envs: int) -> None:
        self._rollout = rollout
        self._open_PB = np.zeros((2, num_envs))  #: what the unfinished episodes have so far
        self._amount_PBT = np.zeros((2, num_envs, rollout))

    @property
    def longest(self) -> int:
        """Steps so far in the longest of the unfinished episodes."""
        return int(self._open_PB[1].max())

    def add(self, reward_TB: npt.NDArray[np.float32], ended_TB: Bools, valid_TB: Bools) -> Finished:
        """Take a fragment; returns the episodes that ended in it.

        One running sum over all environments, laid end to end: an episode's amount is the sum at its end less the sum
        at the end before it in the same environment, or less the environment's start and what was open there.
        """
        valid_BT = valid_TB.T
        np.multiply(reward_TB.T, valid_BT, out=self._amount_PBT[0])
        self._amount_PBT[1] = valid_BT
        sum_PK = np.cumsum(self._amount_PBT.reshape(2, -1), axis=1)
        total_PB = sum_PK[:, self._rollout - 1 :: self._rollout]
        since_PB = np.zeros_like(self._open_PB)
        since_PB[:, 1:] = total_PB[:, :-1]
        since_PB -= self._open_PB
        end_N = np.flatnonzero(ended_TB.T & valid_BT)
        env_N, step_N = np.divmod(end_N, self._rollout)
        at_end_PN = sum_PK[:, end_N]
        before_PN = since_PB[:, env_N]
        np.copyto(before_PN[:, 1:], at_end_PN[:, :-1], where=env_N[1:] == env_N[:-1])
        since_PB[:, env_N] = at_end_PN  # of several ends in one environment the last one stays
        np.subtract(total_PB, since_PB, out=self._open_PB)
        order_N = np.argsort(step_N, kind="stable")
        returns_N, lengths_N = (at_end_PN - before_PN)[:, order_N]
        return Finished(returns_N, lengths_N)
