"""Vector environments behind one face, whatever their autoreset mode.

A caller of `step` always gets transitions: `next_obs_out` is the TRUE successor of the observation acted on (at an
episode's end the final observation, never the first of the next episode), and a row that was no transition at all
(the reset step of next-step autoreset) is marked `valid_out = False`. What `step` returns is what to act on next.

Suffix _B: one entry per environment. Observations are float32 [B, *observation_shape].
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from runtime.contract.envspec import EnvSpec
from runtime.contract.job import EnvConfig
from runtime.envs.errors import EnvError
from runtime.envs.making import MadeEnv, make

Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
StepResult = tuple[Any, Any, Bools, Bools, dict[str, Any]]

AUTORESET_NAMES = {
    AutoresetMode.NEXT_STEP: "next-step",
    AutoresetMode.SAME_STEP: "same-step",
    AutoresetMode.DISABLED: "disabled",
}


class VectorStepper(ABC):
    """One vector environment, made for a hot loop: results go straight into the caller's arrays.

    Arrays returned by `reset` and `step` belong to the environment and are valid until the next call.
    """

    reset_steps = 0  #: steps after each end that are no transitions

    def __init__(self, made: MadeEnv, spec: EnvSpec, seed: np.random.SeedSequence, delay_us: int) -> None:
        self.spec = spec
        self.num_envs = made.env.num_envs
        self._env = made.env
        self._seed = seed
        self._step = _shifted_and_delayed(made.env, delay_us)
        self._cast_B: Floats | None = None
        if made.env.single_observation_space.dtype != np.float32:
            self._cast_B = np.empty((self.num_envs, *spec.observation_shape), np.float32)

    def reset(self) -> Floats:
        """Start new episodes everywhere, seeded from the constructor's sequence: a second call starts the same ones."""
        words = [int(word) for word in self._seed.generate_state(self.num_envs)]
        # A loop over single environments takes one seed for each; a native one derives all its rows from one stream.
        seed: Any = words if isinstance(self._env, SyncVectorEnv) else words[0]
        obs_B, _ = self._env.reset(seed=seed)
        return self._float32(obs_B)

    @abstractmethod
    def step(
        self,
        action_B: Ints,
        *,
        next_obs_out: Floats,
        reward_out: Floats,
        terminated_out: Bools,
        truncated_out: Bools,
        valid_out: Bools,
    ) -> Floats:
        """Act once in every environment, fill the rows, and return the observations to act on next."""

    def close(self) -> None:
        self._env.close()

    def _float32(self, obs_B: Any) -> Floats:
        if self._cast_B is None:
            return obs_B  # type: ignore[no-any-return]  # the space says float32
        np.copyto(self._cast_B, obs_B, casting="same_kind")
        return self._cast_B


class NextStepStepper(VectorStepper):
    """Autoreset at the step after the end: that step ignores its action and is no transition."""

    reset_steps = 1

    def __init__(self, made: MadeEnv, spec: EnvSpec, seed: np.random.SeedSequence, delay_us: int) -> None:
        super().__init__(made, spec, seed, delay_us)
        self._ended_B: Bools = np.zeros(self.num_envs, np.bool_)

    def reset(self) -> Floats:
        self._ended_B[:] = False
        return super().reset()

    def step(
        self,
        action_B: Ints,
        *,
        next_obs_out: Floats,
        reward_out: Floats,
        terminated_out: Bools,
        truncated_out: Bools,
        valid_out: Bools,
    ) -> Floats:
        obs_B, reward_out[:], terminated_B, truncated_B, _ = self._step(action_B)
        next_obs_out[:] = obs_B
        terminated_out[:] = terminated_B
        truncated_out[:] = truncated_B
        np.logical_not(self._ended_B, valid_out)
        np.logical_or(terminated_B, truncated_B, self._ended_B)
        return self._float32(obs_B)


class SameStepStepper(VectorStepper):
    """Autoreset within the ending step: the final observation comes in `info["final_obs"]`."""

    def step(
        self,
        action_B: Ints,
        *,
        next_obs_out: Floats,
        reward_out: Floats,
        terminated_out: Bools,
        truncated_out: Bools,
        valid_out: Bools,
    ) -> Floats:
        obs_B, reward_out[:], terminated_B, truncated_B, info = self._step(action_B)
        next_obs_out[:] = obs_B
        terminated_out[:] = terminated_B
        truncated_out[:] = truncated_B
        valid_out[:] = True
        ended_B = terminated_B | truncated_B
        if ended_B.any():
            self._put_final_observations(next_obs_out, ended_B, info)
        return self._float32(obs_B)

    def _put_final_observations(self, next_obs_out: Floats, ended_B: Bools, info: dict[str, Any]) -> None:
        final_B = info.get("final_obs")
        if final_B is None:
            raise EnvError(
                f'environment {self.spec.id} says same-step autoreset but its info has no "final_obs" at an episode\'s '
                "end: the last observation would be lost; put it there, or use next-step autoreset"
            )
        for index in np.flatnonzero(ended_B):
            next_obs_out[index] = final_B[index]


class DisabledStepper(VectorStepper):
    """No autoreset: ended environments are reset here, by mask, right after their last step."""

    def __init__(self, made: MadeEnv, spec: EnvSpec, seed: np.random.SeedSequence, delay_us: int) -> None:
        super().__init__(made, spec, seed, delay_us)
        self._obs_B: Floats = np.empty((self.num_envs, *spec.observation_shape), np.float32)

    def step(
        self,
        action_B: Ints,
        *,
        next_obs_out: Floats,
        reward_out: Floats,
        terminated_out: Bools,
        truncated_out: Bools,
        valid_out: Bools,
    ) -> Floats:
        obs_B, reward_out[:], terminated_B, truncated_B, _ = self._step(action_B)
        next_obs_out[:] = obs_B
        terminated_out[:] = terminated_B
        truncated_out[:] = truncated_B
        valid_out[:] = True
        ended_B = np.logical_or(terminated_B, truncated_B)
        if not ended_B.any():
            return self._float32(obs_B)
        self._obs_B[:] = next_obs_out
        fresh_B, _ = self._env.reset(options={"reset_mask": ended_B})
        self._obs_B[ended_B] = fresh_B[ended_B]
        return self._obs_B


_STEPPERS: dict[AutoresetMode, type[VectorStepper]] = {
    AutoresetMode.NEXT_STEP: NextStepStepper,
    AutoresetMode.SAME_STEP: SameStepStepper,
    AutoresetMode.DISABLED: DisabledStepper,
}


def make_vector_env(config: EnvConfig, num_envs: int, seed: np.random.SeedSequence) -> VectorStepper:
    """Make the job's environment `num_envs` times, seeded; raises EnvError for what cannot be trained on."""
    made = make(config, num_envs)
    try:
        mode = _autoreset_mode(config, made.env)
        spec = _described(config, made, mode)
    except EnvError:
        made.env.close()
        raise
    return _STEPPERS[mode](made, spec, seed, config.delay_us)


def _described(config: EnvConfig, made: MadeEnv, mode: AutoresetMode) -> EnvSpec:
    observation, action = made.env.single_observation_space, made.env.single_action_space
    if not isinstance(observation, spaces.Box) or len(observation.shape) != 1:
        shape = f" of shape {observation.shape}" if isinstance(observation, spaces.Box) else ""
        raise EnvError(
            f"environment {config.id} has {type(observation).__name__} observations{shape}: only vectors (a Box of one "
            "dimension) are supported; wrap it, e.g. with gymnasium.wrappers.FlattenObservation, in a factory of your "
            "own and name that as package.module:factory",
            hint=_wrapped(config.id, "gymnasium.wrappers.FlattenObservation"),
        )
    if not isinstance(action, spaces.Discrete):
        raise EnvError(
            f"environment {config.id} has {type(action).__name__} actions: only Discrete actions are supported; wrap "
            "it into discrete choices in a factory of your own and name that as package.module:factory",
            hint=_wrapped(config.id, "DiscreteChoices"),
        )
    return EnvSpec(
        id=config.id,
        observation_shape=observation.shape,
        num_actions=int(action.n),
        native_vector=made.native,
        autoreset=AUTORESET_NAMES[mode],
        max_episode_steps=made.max_episode_steps,
    )


def _wrapped(env_id: str, wrapper: str) -> str:
    return f"in a module wrapped.py: def make(): return {wrapper}(gymnasium.make('{env_id}')); then --env wrapped:make"


def _autoreset_mode(config: EnvConfig, env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    stated = env.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(stated)
    except ValueError as cause:
        known = ", ".join(str(mode) for mode in AutoresetMode)
        raise EnvError(
            f'vector environment {config.id} states autoreset mode {stated!r} in metadata["autoreset_mode"]: set it to '
            f"one of {known}, as a wrong guess would put reset observations into the data"
        ) from cause


def _shifted_and_delayed(env: VectorEnv[Any, Any, Any], delay_us: int) -> Callable[[Ints], StepResult]:
    """The environment's `step`, wrapped only as far as needed: actions that start at another number, a delay."""
    step: Callable[[Ints], StepResult] = env.step
    start = int(getattr(env.single_action_space, "start", 0))
    if start:
        unshifted = step

        def shifted(action_B: Ints) -> StepResult:
            return unshifted(action_B + start)

        step = shifted
    if delay_us:
        prompt, delay_s = step, delay_us * 1e-6

        def delayed(action_B: Ints) -> StepResult:
            time.sleep(delay_s)
            return prompt(action_B)

        step = delayed
    return step
