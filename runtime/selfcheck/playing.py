"""Steps of the vector environment that actors play, one at a time and kept. Legend: B environments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from runtime.envs.errors import EnvError
from runtime.envs.vector import make_vector_env

if TYPE_CHECKING:
    from runtime.contract.job import EnvConfig
    from runtime.envs.vector import Bools, Floats, Ints, VectorStepper


@dataclass(frozen=True, slots=True)
class Step:
    """What one step said; all are copies, [B] or [B, *observation]."""

    next_obs: Floats  #: the true successors
    reward: Floats
    terminated: Bools
    truncated: Bools
    valid: Bools
    then: Floats  #: what to act on next

    @property
    def ended(self) -> Bools:
        return self.terminated | self.truncated


def act(env: VectorStepper, action_B: Ints) -> Step:
    """Step once, into arrays full of what is no answer."""
    n = env.num_envs
    next_obs_B = np.full((n, *env.spec.observation_shape), np.nan, np.float32)
    reward_B, flags_B = np.full(n, np.nan, np.float32), np.zeros((3, n), np.bool_)
    then_B = env.step(
        action_B,
        next_obs_out=next_obs_B,
        reward_out=reward_B,
        terminated_out=flags_B[0],
        truncated_out=flags_B[1],
        valid_out=flags_B[2],
    )
    return Step(next_obs_B, reward_B, flags_B[0], flags_B[1], flags_B[2], then_B.copy())


def shortened(config: EnvConfig, steps: int) -> EnvConfig | None:
    """The same environment with another step limit; None where it takes none."""
    short = config.model_copy(update={"kwargs": dict(config.kwargs) | {"max_episode_steps": steps}})
    try:
        make_vector_env(short, 1, np.random.SeedSequence(0)).close()
    except EnvError:
        return None
    return short
