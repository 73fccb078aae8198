"""Environments that are not what they say, each in one way. All of them pay, and obey their actions."""

from __future__ import annotations

import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, SyncVectorEnv


class Walk(gymnasium.Env[Any, Any]):
    """A random walk with a push by the action, for `length` steps; every other episode terminates."""

    def __init__(
        self, length: int = 5, limit: int | None = None, seeds: str = "honest", sleep_s: float = 0.0, pays: float = 1.0
    ) -> None:
        self.observation_space = spaces.Box(-1e3, 1e3, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.length, self.seeds, self.sleep_s, self.pays = length, seeds, sleep_s, pays
        if limit is not None:
            self.spec = EnvSpec("Walk-v0", entry_point="liars:Walk", max_episode_steps=limit)
        self.episode = self.t = 0
        self.at = np.zeros(2, np.float32)
        self.rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        if seed is not None:
            self.rng = np.random.default_rng({"honest": seed, "ignored": 7}.get(self.seeds))
        self.episode, self.t = self.episode + 1, 0
        self.at = self.rng.normal(size=2).astype(np.float32)
        return self.at.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(self.sleep_s)
        self.t += 1
        self.at += self.rng.normal(size=2).astype(np.float32) * 0.1 + np.float32(action)
        ended, even = self.t >= self.length, self.episode % 2 == 0
        return self.at.copy(), self.pays, ended and even, ended and not even, {}


def vector(num_envs: int, really: str, said: str = "", loses_final: bool = False, **kwargs: Any) -> SyncVectorEnv:
    """A vector that resets as `really`, and says that it does so as `said`."""
    kind = _Losing if loses_final else SyncVectorEnv
    env = kind([lambda: Walk(**kwargs)] * num_envs, autoreset_mode=really)
    env.metadata = env.metadata | {"autoreset_mode": AutoresetMode(said or really)}
    return env


class _Losing(SyncVectorEnv):
    """Keeps no last observation."""

    def step(self, actions: Any) -> Any:
        *said, info = super().step(actions)
        info.pop("final_obs", None)
        return (*said, info)


class Twins(SyncVectorEnv):
    """Gives one seed to all of its environments."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        first = seed[0] if isinstance(seed, list) else seed
        return super().reset(seed=[first] * self.num_envs, options=options)


def twins(num_envs: int) -> Twins:
    return Twins([Walk] * num_envs)


class Loud(Walk):
    """Talks on standard output."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        sys.stdout.write("hello from the simulator\n")
        return super().reset(seed=seed, options=options)


class Breaking(Walk):
    """Its simulator fails after the first few steps."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.t == 4:
            raise RuntimeError("the licence has run out")
        return super().step(action)
