"""Playing a policy without exploring: `play`, and `python -m runtime eval JSON` for a policy in a checkpoint.

B environments; each plays a fixed number of episodes, set before the first step. Taking whichever episodes end first
instead would favour short ones.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field, ValidationError

from runtime.checkpoint.errors import CheckpointError
from runtime.checkpoint.shard import load_shard
from runtime.checkpoint.store import verify
from runtime.contract.model import Document
from runtime.contract.paths import RunPaths
from runtime.contract.plan import Plan
from runtime.envs.errors import EnvError
from runtime.envs.vector import make_vector_env
from runtime.models.numpy_policy import NumpyPolicy
from runtime.models.spec import NetworkSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.contract.job import EnvConfig
    from runtime.models.arrays import Floats

MAX_ENVS = 32
_USAGE, _CHECKPOINT_PROBLEM = 2, 11  # exit codes


@dataclass(frozen=True, slots=True)
class EvalResult:
    """Undiscounted returns of the episodes, by environment and then by time; `std` is the population's."""

    returns: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        return float(np.std(self.returns))

    @property
    def min(self) -> float:
        return min(self.returns)

    @property
    def max(self) -> float:
        return max(self.returns)


class Evaluation:
    """Greedy episodes in slices: one vector step for each `step`, so that a caller decides how long it plays at a time.

    Same environment, parameters, episodes and seed give the same returns. Raises EnvError where the environment
    cannot be made. The delay that stands in for a slow simulator is left out.
    """

    def __init__(self, config: EnvConfig, network: NetworkSpec, params: Floats, episodes: int, seed: int) -> None:
        num_envs = min(episodes, MAX_ENVS)
        prompt = config.model_copy(update={"delay_us": 0})
        self._env = make_vector_env(prompt, num_envs, np.random.SeedSequence(seed))
        self._policy = NumpyPolicy(network, num_envs, np.random.default_rng(seed))
        self._policy.load(params)
        self._quota = [episodes // num_envs + (env < episodes % num_envs) for env in range(num_envs)]
        self._returns: list[list[float]] = [[] for _ in range(num_envs)]
        self._missing = episodes
        self._paid_B = np.zeros(num_envs)
        self._action_B = np.zeros(num_envs, np.int64)
        self._next_obs_B = np.zeros((num_envs, *self._env.spec.observation_shape), np.float32)
        self._reward_B = np.zeros(num_envs, np.float32)
        self._terminated_B, self._truncated_B, self._valid_B = np.zeros((3, num_envs), np.bool_)
        self._obs_B = self._env.reset()

    @property
    def result(self) -> EvalResult | None:
        """The returns once every environment has played its episodes, None before."""
        if self._missing:
            return None
        return EvalResult(tuple(value for returns in self._returns for value in returns))

    def step(self) -> None:
        """One step in every environment."""
        self._policy.greedy(self._obs_B, self._action_B)
        self._obs_B = self._env.step(
            self._action_B,
            next_obs_out=self._next_obs_B,
            reward_out=self._reward_B,
            terminated_out=self._terminated_B,
            truncated_out=self._truncated_B,
            valid_out=self._valid_B,
        )
        self._paid_B += self._reward_B * self._valid_B
        for env in np.flatnonzero((self._terminated_B | self._truncated_B) & self._valid_B):
            if len(self._returns[env]) < self._quota[env]:
                self._returns[env].append(float(self._paid_B[env]))
                self._missing -= 1
            self._paid_B[env] = 0.0

    def close(self) -> None:
        self._env.close()


def play(config: EnvConfig, network: NetworkSpec, params: Floats, episodes: int, seed: int) -> EvalResult:
    """Play `episodes` greedy episodes to their end with flat `params`; see `Evaluation`."""
    evaluation = Evaluation(config, network, params, episodes, seed)
    try:
        while (result := evaluation.result) is None:
            evaluation.step()
    finally:
        evaluation.close()
    return result


class Question(Document):
    """What `python -m runtime eval` is asked."""

    checkpoint: Path
    episodes: int = Field(default=20, ge=1)
    seed: int = Field(default=0, ge=0)


def main(argv: Sequence[str]) -> int:
    """Answer the Question in `argv[0]` (JSON) with one line of JSON: episodes, seed, version, return.

    `{"error": …, "hint": …}` with exit code 11 for a missing or damaged checkpoint, 2 for a bad question or
    environment.
    """
    try:
        question = Question.model_validate_json(argv[0])
        version, result = _play_checkpoint(question)
    except IndexError:
        return _failed("usage: eval JSON, with the keys checkpoint, episodes and seed", _USAGE)
    except CheckpointError as error:
        return _failed(error.message, _CHECKPOINT_PROBLEM, error.hint)
    except (ValidationError, EnvError) as error:
        return _failed(str(error), _USAGE)
    returns = {"mean": result.mean, "std": result.std, "min": result.min, "max": result.max}
    answer = {"episodes": question.episodes, "seed": question.seed, "version": version, "return": returns}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def _failed(message: str, code: int, hint: str | None = None) -> int:
    sys.stdout.write(json.dumps({"error": message, "hint": hint}) + "\n")
    return code


def _play_checkpoint(question: Question) -> tuple[int, EvalResult]:
    """The version and returns of the first learner's policy: its slowly averaged parameters where the run has them."""
    if problems := verify(question.checkpoint):
        raise CheckpointError("; ".join(problems), hint="`tianjictl checkpoints` lists the complete ones")
    arrays, meta = load_shard(question.checkpoint, "learner-0")
    plan = _plan_of(question.checkpoint)
    network = NetworkSpec.of(plan.env, plan.job.algorithm)
    params = arrays.get("shadow", arrays.get("params"))
    if params is None or params.shape != (network.layout.size,):
        found = "none" if params is None else f"{params.size}"
        raise CheckpointError(
            f"{question.checkpoint} does not fit its run's plan: {network.layout.size} parameters expected, "
            f"{found} found",
            hint="leave the checkpoint in the folder of the run that wrote it",
        )
    result = play(plan.job.env, network, params, question.episodes, question.seed)
    return int(meta.get("updates", 0)), result


def _plan_of(checkpoint: Path) -> Plan:
    path = RunPaths(checkpoint.absolute().parent.parent).plan
    try:
        return Plan.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as cause:
        raise CheckpointError(
            f"the plan that {checkpoint} was made with cannot be read from {path}: {cause}",
            hint="leave the checkpoint in the folder of the run that wrote it",
        ) from cause
