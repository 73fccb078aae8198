"""Returns and lengths of episodes that run on from one fragment into the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]


class Finished(NamedTuple):
    """Episodes that ended, in order of time: undiscounted returns and lengths in steps, [N] each."""

    returns_N: npt.NDArray[np.float64]
    lengths_N: npt.NDArray[np.int64]


class EpisodeTracker:
    """Sums rewards and steps of each environment; T steps, B environments."""

    def __init__(self, num_envs: int) -> None:
        self._return_B = np.zeros(num_envs, np.float64)
        self._length_B = np.zeros(num_envs, np.int64)

    @property
    def longest(self) -> int:
        """Steps so far in the longest of the unfinished episodes."""
        return int(self._length_B.max())

    def add(self, reward_TB: npt.NDArray[np.float32], ended_TB: Bools, valid_TB: Bools) -> Finished:
        """Take a fragment; returns the episodes that ended in it.

        An episode's sum is a difference of two running sums: the one at its end and the one at the end before it in the
        same environment, or what was carried over from the last fragment.
        """
        paid_TB = np.add.accumulate(reward_TB * valid_TB, axis=0, dtype=np.float64)
        paid_TB += self._return_B
        steps_TB = np.add.accumulate(valid_TB, axis=0, dtype=np.int64)
        steps_TB += self._length_B
        env_N, step_N = np.nonzero((ended_TB & valid_TB).T)  # by environment, then by time
        self._return_B, self._length_B = paid_TB[-1], steps_TB[-1]
        if not len(env_N):
            return Finished(np.zeros(0, np.float64), np.zeros(0, np.int64))
        paid_N, taken_N = paid_TB[step_N, env_N], steps_TB[step_N, env_N]
        follows_N = env_N[1:] == env_N[:-1]
        returns_N, lengths_N = paid_N.copy(), taken_N.copy()
        returns_N[1:] -= paid_N[:-1] * follows_N
        lengths_N[1:] -= taken_N[:-1] * follows_N
        last_N = np.append(~follows_N, True)  # the last end of each environment: its running sums start over there
        self._return_B[env_N[last_N]] -= paid_N[last_N]
        self._length_B[env_N[last_N]] -= taken_N[last_N]
        order_N = np.argsort(step_N, kind="stable")
        return Finished(returns_N[order_N], lengths_N[order_N])
