"""A small environment whose every observation can be told in advance."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv


def episode_length(number: int, episode: int) -> int:
    return 2 + (number + episode) % 3


class CountingEnv(gymnasium.Env[Any, Any]):
    """Observes [number, episode, t]; pays t; even episodes terminate, odd ones are truncated."""

    def __init__(self, number: int = 0, dtype: str = "float32", start: int = 0, stretch: int = 0) -> None:
        self.observation_space = spaces.Box(-1e4, 1e4, (3,), np.dtype(dtype).type)
        self.action_space = spaces.Discrete(2, start=start)
        self.number, self.episode, self.t = number, -1, 0
        self.extra = stretch * number  #: steps that all episodes of this environment last longer
        self.seen: list[int] = []

    def _obs(self) -> Any:
        return np.array([self.number, self.episode, self.t], self.observation_space.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.episode, self.t = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.t < self.extra + episode_length(self.number, self.episode), "stepped past the end of an episode"
        self.seen.append(int(action))
        self.t += 1
        ended = self.t == self.extra + episode_length(self.number, self.episode)
        even = self.episode % 2 == 0
        return self._obs(), float(self.t), ended and even, ended and not even, {}


def vector(
    num_envs: int, mode: str = "NextStep", dtype: str = "float32", start: int = 0, stretch: int = 0
) -> SyncVectorEnv:
    """A vector of counting environments with the named autoreset mode of Gymnasium."""
    singles = [lambda number=number: CountingEnv(number, dtype, start, stretch) for number in range(num_envs)]
    return SyncVectorEnv(singles, autoreset_mode=mode)


class BrokenEnv(CountingEnv):
    """Can be made and reset, but not stepped."""

    def step(self, action: Any) -> Any:
        raise RuntimeError(f"no licence for the simulator (action {action})")
