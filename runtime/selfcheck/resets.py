"""What an actor is given at the ends of episodes, against an account of the same episodes kept by other means.

Environments that are looped over are played a second time one by one, where there is no automatic reset at all. A
native vector is played a second time as it is, and its ends are read in the way that `reset_mode` has seen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import SyncVectorEnv

from runtime.envs.making import make
from runtime.envs.vector import make_vector_env
from runtime.selfcheck.finding import Deadline, NotSeenError, Seen
from runtime.selfcheck.playing import Step, act, shortened
from runtime.selfcheck.reset_mode import observed_reset

if TYPE_CHECKING:
    from collections.abc import Callable

    from gymnasium.vector import VectorEnv

    from runtime.contract.job import EnvConfig
    from runtime.envs.vector import Bools, Ints, VectorStepper

_ENVS = 4
_ENDS = 12  #: ends of episodes after which enough has been seen
_MOST_STEPS = 20_000
_SHORT = 20  #: steps of an episode, where those of the environment are too long to see one end


def check_resets(config: EnvConfig, seed: int, look_s: float) -> Seen:
    """The mode is what it is said to be; no reset step is valid, and every last observation is the true one."""
    config = config.model_copy(update={"delay_us": 0})
    try:
        return _looked(config, seed, look_s)
    except NotSeenError:
        short = shortened(config, _SHORT)
        if short is None:
            raise
        seen = _looked(short, seed, look_s)
        return replace(seen, evidence=f"with episodes of {_SHORT} steps: {seen.evidence}")


def _looked(config: EnvConfig, seed: int, look_s: float) -> Seen:
    sequence = np.random.SeedSequence(seed)
    env = make_vector_env(config, _ENVS, sequence)
    try:
        stated, reset = env.spec.autoreset, observed_reset(config, seed, look_s / 2)
        if stated != reset.mode:
            return Seen(False, f"the environment states {stated} autoreset, but {reset.evidence}", stated, reset.mode)
        twin = _twin(config, sequence, reset.mode)
        try:
            return _compared(env, twin, reset.mode, seed, Deadline(look_s / 2))
        finally:
            twin.close()
    finally:
        env.close()


def _compared(env: VectorStepper, twin: _Twin, mode: str, seed: int, deadline: Deadline) -> Seen:
    """Play both with the same actions until enough episodes have ended."""
    rng, ends, resets, steps = np.random.default_rng(seed), 0, 0, 0
    if not np.array_equal(env.reset(), twin.reset()):
        raise NotSeenError("the first observations differ under one seed, so ends cannot be compared")
    for steps in range(1, _MOST_STEPS):
        action_B = rng.integers(0, env.spec.num_actions, _ENVS)
        step, true = act(env, action_B), twin.step(action_B)
        if wrong := _difference(step, true):
            return Seen(False, f"{mode} autoreset, step {steps}: {wrong[0]}", *wrong[1:])
        ends, resets = ends + int(step.ended.sum()), resets + int((~step.valid).sum())
        if ends >= _ENDS or deadline.over:
            break
    if not ends:
        raise NotSeenError(f"{mode} autoreset, but no episode of {_ENVS} ended within {steps} steps")
    return Seen(
        True, f"{mode} autoreset, as stated: {ends} episodes of {_ENVS} environments ended with their true last "
        f"observation; {resets} reset steps, none of them valid",
    )  # fmt: skip


def _difference(step: Step, true: Step) -> tuple[str, str, str] | None:
    """What is wrong in the first environment where anything is: words, expected, seen."""
    for index in range(_ENVS):
        expected, seen = bool(true.valid[index]), bool(step.valid[index])
        if expected != seen:
            words = "a reset step is marked as a valid transition" if seen else "a transition is marked as not valid"
            return words, f"valid {expected}", f"valid {seen}"
        ended = "last observation of an episode" if true.ended[index] else "successor"
        parts = [(f"the {ended}", "next_obs"), ("the reward", "reward"), ("termination", "terminated")]
        for words, name in [*parts, ("truncation", "truncated")] if seen else []:
            ours, theirs = getattr(step, name)[index], getattr(true, name)[index]
            if not np.array_equal(ours, theirs):
                return f"{words} is not the true one", _shown(theirs), _shown(ours)
        if not np.array_equal(step.then[index], true.then[index]):
            return "what to act on next is not what comes next", _shown(true.then[index]), _shown(step.then[index])
    return None


def _shown(value: Any) -> str:
    text = np.array2string(np.asarray(value), precision=4, threshold=6, separator=" ").replace("\n", "")
    return text if len(text) <= 80 else f"{text[:77]}..."


class _Twin(ABC):
    """The same environments a second time: says of each step what an actor should have been given."""

    @abstractmethod
    def reset(self) -> np.ndarray:
        """The first observations."""

    @abstractmethod
    def step(self, action_B: Ints) -> Step:
        """What is true of this step."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the environments."""


def _twin(config: EnvConfig, sequence: np.random.SeedSequence, mode: str) -> _Twin:
    made = make(config, _ENVS).env
    words = [int(word) for word in sequence.generate_state(_ENVS)]  # the seeds that VectorStepper.reset gives
    if isinstance(made, SyncVectorEnv):
        return _OneByOne(made, words, own_step=mode == "next-step")
    return _AsItIs(made, words[0], mode)


class _OneByOne(_Twin):
    """The single environments of a loop, reset by hand; `own_step`: the reset takes a step that is no transition."""

    def __init__(self, made: SyncVectorEnv, seeds: list[int], *, own_step: bool) -> None:
        self._made, self._seeds, self._own_step = made, seeds, own_step
        self._ended = [False] * len(seeds)
        self._start = int(getattr(made.single_action_space, "start", 0))

    def reset(self) -> np.ndarray:
        starts = [env.reset(seed=seed)[0] for env, seed in zip(self._made.envs, self._seeds, strict=True)]
        return np.stack([np.asarray(obs, np.float32) for obs in starts])

    def step(self, action_B: Ints) -> Step:
        rows = [self._one(index, int(action)) for index, action in enumerate(action_B)]
        next_obs, reward, terminated, truncated, valid, then = (list(column) for column in zip(*rows, strict=True))
        return Step(
            np.stack(next_obs), np.array(reward, np.float32), np.array(terminated), np.array(truncated),
            np.array(valid), np.stack(then),
        )  # fmt: skip

    def _one(self, index: int, action: int) -> tuple[Any, ...]:
        env = self._made.envs[index]
        if self._ended[index]:
            self._ended[index] = False
            first = np.asarray(env.reset()[0], np.float32)
            return first, 0.0, False, False, False, first
        obs, reward, terminated, truncated, _ = env.step(action + self._start)
        last = then = np.array(obs, np.float32)
        if terminated or truncated:
            if self._own_step:
                self._ended[index] = True
            else:
                then = np.asarray(env.reset()[0], np.float32)
        return last, float(reward), bool(terminated), bool(truncated), True, then

    def close(self) -> None:
        self._made.close()


class _AsItIs(_Twin):
    """A native vector, read in the way that its resets were seen to happen."""

    def __init__(self, made: VectorEnv[Any, Any, Any], seed: int, mode: str) -> None:
        self._made, self._seed = made, seed
        self._start = int(getattr(made.single_action_space, "start", 0))
        self._read: Callable[[np.ndarray, Bools, dict[str, Any]], tuple[np.ndarray, np.ndarray]] = {
            "next-step": self._as_said,
            "same-step": self._from_info,
            "disabled": self._reset_now,
        }[mode]
        self._own_step = mode == "next-step"
        self._ended_B = np.zeros(_ENVS, np.bool_)

    def reset(self) -> np.ndarray:
        return np.array(self._made.reset(seed=self._seed)[0], np.float32)

    def step(self, action_B: Ints) -> Step:
        said, reward, terminated, truncated, info = self._made.step(action_B + self._start)
        obs_B, ended_B = np.array(said, np.float32), np.logical_or(terminated, truncated)
        valid_B = ~self._ended_B
        self._ended_B = ended_B if self._own_step else np.zeros(_ENVS, np.bool_)
        next_B, then_B = self._read(obs_B, ended_B, info)
        return Step(
            next_B, np.array(reward, np.float32), np.array(terminated), np.array(truncated), valid_B, then_B
        )  # fmt: skip

    def _as_said(self, obs_B: np.ndarray, ended_B: Bools, info: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        del ended_B, info
        return obs_B, obs_B

    def _from_info(self, obs_B: np.ndarray, ended_B: Bools, info: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        last_B = obs_B.copy()
        for index in np.flatnonzero(ended_B):
            last_B[index] = info["final_obs"][index]
        return last_B, obs_B

    def _reset_now(self, obs_B: np.ndarray, ended_B: Bools, info: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        del info
        if not ended_B.any():
            return obs_B, obs_B
        fresh = np.array(self._made.reset(options={"reset_mask": ended_B})[0], np.float32)
        return obs_B, np.where(ended_B[:, None], fresh, obs_B)

    def close(self) -> None:
        self._made.close()
