"""Look at an environment once, before anything is planned or started: `python -m runtime probe-env JSON`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

import numpy as np
from pydantic import ValidationError

from runtime.contract.envspec import EnvSpec
from runtime.contract.job import EnvConfig
from runtime.envs.errors import EnvError
from runtime.envs.vector import make_vector_env

_STEPS = 3
_SLOW_S = 0.1  #: a quicker step is nobody's concern, and its time would differ from one look to the next


def probe(config: EnvConfig) -> EnvSpec:
    """Make the environment once, take a few steps in it and describe it; raises EnvError where that fails."""
    env = make_vector_env(config.model_copy(update={"delay_us": 0}), 1, np.random.SeedSequence(0))
    spec = env.spec
    try:
        obs_B = np.zeros((1, *spec.observation_shape), np.float32)
        reward_B, flags_B = np.zeros(1, np.float32), np.zeros((3, 1), np.bool_)
        obs_B[:] = env.reset()
        quickest = float("inf")
        for _ in range(_STEPS):
            began = time.monotonic()
            env.step(
                np.zeros(1, np.int64),
                next_obs_out=obs_B,
                reward_out=reward_B,
                terminated_out=flags_B[0],
                truncated_out=flags_B[1],
                valid_out=flags_B[2],
            )
            quickest = min(quickest, time.monotonic() - began)
    except EnvError:
        raise
    except Exception as cause:  # an environment's own code may raise anything at all
        raise EnvError(
            f"environment {config.id} was made but fails in its first steps ({type(cause).__name__}: {cause})"
        ) from cause
    finally:
        env.close()
    return spec if quickest < _SLOW_S else spec.model_copy(update={"slow_step_s": round(quickest, 1)})


def main(argv: Sequence[str]) -> int:
    """Print the EnvSpec of the EnvConfig in `argv[0]` (JSON both), or `{"error": …, "hint": …}` with exit code 2."""
    try:
        spec = probe(EnvConfig.model_validate_json(argv[0]))
    except IndexError:
        return _failed("usage: probe-env JSON, where JSON is the env part of a job")
    except (EnvError, ValidationError) as error:
        return _failed(str(error), error.hint if isinstance(error, EnvError) else None)
    sys.stdout.write(spec.model_dump_json() + "\n")
    return 0


def _failed(message: str, hint: str | None = None) -> int:
    sys.stdout.write(json.dumps({"error": message, "hint": hint}) + "\n")
    return 2
