"""How an environment really starts its next episode, told from what it does and not from what it says.

Two copies are played alike until an episode ends; then they are given different actions. Where the reset is a step of
its own (next-step), that step ignores its action: both copies show the same observation, and no reward. Where they
differ, or pay, an episode has already gone on: the reset came within the ending step (same-step, and the last
observation is in `info["final_obs"]`), or there was none (disabled).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.envs.making import make
from runtime.selfcheck.finding import Deadline, NotSeenError

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from runtime.contract.job import EnvConfig

_ENDS = 3  #: ends after which a reset that ignores its action is believed
_MOST_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Reset:
    """`mode` as in EnvSpec, and what showed it.

    A reset within the ending step that loses the last observation looks like none at all: both are `disabled`.
    """

    mode: str
    evidence: str


class _Pair:
    """Two copies of one environment (vectors of one), under one seed."""

    def __init__(self, config: EnvConfig, seed: int) -> None:
        self._envs: list[VectorEnv[Any, Any, Any]] = []
        try:
            for _ in range(2):
                self._envs.append(make(config, 1).env)
            first, second = (np.array(env.reset(seed=seed)[0]) for env in self._envs)
        except BaseException:
            self.close()
            raise
        space: Any = self._envs[0].single_action_space
        self.num_actions, self._start = int(space.n), int(getattr(space, "start", 0))
        self.alike = np.array_equal(first, second)

    def step(self, first: int, second: int) -> list[tuple[Any, ...]]:
        """What both say of their actions (from 0), copied."""
        said = []
        for env, action in zip(self._envs, (first, second), strict=True):
            obs, reward, terminated, truncated, info = env.step(np.array([action + self._start]))
            said.append((np.array(obs), float(reward[0]), bool(terminated[0]), bool(truncated[0]), info))
        return said

    def close(self) -> None:
        for env in self._envs:
            env.close()


def observed_reset(config: EnvConfig, seed: int, look_s: float) -> Reset:
    """Watch some resets; NotSeenError where no episode ended within the time, or two copies do not go the same way."""
    pair = _Pair(config, seed)
    try:
        return _watched(pair, np.random.default_rng(seed), Deadline(look_s))
    finally:
        pair.close()


def _watched(pair: _Pair, rng: np.random.Generator, deadline: Deadline) -> Reset:
    mode = None
    for _ in range(_ENDS):
        end = _played_to_an_end(pair, rng, deadline)
        if end is None:
            break
        mode = _after(pair, end, int(rng.integers(pair.num_actions)))
        if mode.mode != "next-step":
            return mode
    if mode is None:
        raise NotSeenError(f"no episode ended within {deadline.seconds:g} s")
    return mode


def _played_to_an_end(pair: _Pair, rng: np.random.Generator, deadline: Deadline) -> tuple[Any, ...] | None:
    """The step that ended an episode; None where there was none in time."""
    for _ in range(_MOST_STEPS):
        if deadline.over:
            return None
        action = int(rng.integers(pair.num_actions))
        first, second = pair.step(action, action)
        if not (pair.alike and np.array_equal(first[0], second[0]) and first[1:4] == second[1:4]):
            raise NotSeenError("two copies under one seed go different ways, so resets cannot be compared")
        if first[2] or first[3]:
            return first
    return None


def _after(pair: _Pair, end: tuple[Any, ...], action: int) -> Reset:
    """Which mode the step after the end shows."""
    other = (action + 1) % pair.num_actions
    final = end[4].get("final_obs")
    kept_apart = final is not None and not np.array_equal(np.asarray(final[0]), end[0][0])
    try:
        first, second = pair.step(action, other)
    except Exception as cause:  # Gymnasium asserts, others raise what they like
        return Reset("disabled", f"stepping past an episode's end raises {type(cause).__name__}")
    over = any(step[2] or step[3] for step in (first, second))
    still = not over and np.array_equal(first[0], second[0]) and first[1] == second[1] == 0.0
    if final is not None and (kept_apart or not still):
        return Reset("same-step", "the ending step shows the next episode, and the last observation in its info")
    if over:
        return Reset("disabled", "the step after an episode's end ends it again")
    if still:
        return Reset("next-step", "the step after an episode's end ignores its action and pays nothing")
    return Reset("disabled", "the step after an episode's end obeys its action, and no last observation was kept apart")
