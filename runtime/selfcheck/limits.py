"""Whether the environment's step limit is applied to every episode."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from runtime.envs.vector import make_vector_env
from runtime.selfcheck.finding import Deadline, NotSeenError, Seen
from runtime.selfcheck.playing import act, shortened

if TYPE_CHECKING:
    from runtime.contract.job import EnvConfig
    from runtime.envs.vector import VectorStepper

_ENVS = 4
_SHORT = 3  #: a limit that random play reaches at once
_REACHED = 8  #: episodes cut off after which it is believed
_MOST_STEPS = 100_000


def check_step_limit(config: EnvConfig, seed: int, look_s: float) -> Seen:
    """Random play with the limit as it is; where that is not reached in time, with a short one."""
    config = config.model_copy(update={"delay_us": 0})
    env = make_vector_env(config, _ENVS, np.random.SeedSequence(seed))
    try:
        limit = env.spec.max_episode_steps
        if limit is None:
            return Seen(True, "the environment states no step limit, so there is none to apply")
        as_it_is = _played(env, limit, seed, Deadline(look_s / 2))
    finally:
        env.close()
    if as_it_is is not None:
        return as_it_is
    return _with_a_short_one(config, limit, seed, look_s)


def _with_a_short_one(config: EnvConfig, limit: int, seed: int, look_s: float) -> Seen:
    unseen = f"no episode of random play lasted {limit} steps, the limit, within {look_s / 2:g} s"
    short = shortened(config, _SHORT)
    if short is None:
        raise NotSeenError(f"{unseen}, and it takes no shorter one")
    env = make_vector_env(short, _ENVS, np.random.SeedSequence(seed))
    try:
        seen = _played(env, _SHORT, seed, Deadline(look_s / 2))
    finally:
        env.close()
    if seen is None:
        raise NotSeenError(f"{unseen}, nor {_SHORT} steps with that as the limit")
    return replace(seen, evidence=f"{unseen}; with {_SHORT} as the limit: {seen.evidence}")


def _played(env: VectorStepper, limit: int, seed: int, deadline: Deadline) -> Seen | None:
    """Count transitions of each episode; None where none of them came as far as the limit."""
    rng, reached = np.random.default_rng(seed), 0
    length_B = np.zeros(_ENVS, np.int64)
    env.reset()
    for _ in range(_MOST_STEPS):
        step = act(env, rng.integers(0, env.spec.num_actions, _ENVS))
        length_B += step.valid
        at_B = step.valid & (length_B == limit)
        late_B = step.valid & (length_B >= limit) & ~step.ended
        if late_B.any():
            return Seen(
                False, f"an episode goes on after step {limit}, the step limit", f"truncated in step {limit}",
                "neither truncated nor terminated",
            )  # fmt: skip
        reached += int((at_B & step.truncated).sum())
        length_B[step.ended] = 0
        if reached >= _REACHED or deadline.over:
            break
    if not reached:
        return None
    return Seen(True, f"{reached} episodes that reached the limit of {limit} steps were cut off there")
