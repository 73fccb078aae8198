"""The slots between a buffer and its learner. T steps, B envs per actor, F fragments per batch, N samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.components.fragments import step_fields
from runtime.contract.algorithm import DqnConfig, PpoConfig
from runtime.memory.layout import Field, Layout

if TYPE_CHECKING:
    from runtime.contract.envspec import EnvSpec
    from runtime.contract.plan import Sizes

#: What the buffer tells the learner beside the samples: global env steps so far, rounds taken (strict mode only).
TIDINGS = (Field("env_steps", "int64", (1,)), Field("turn", "int64", (1,)))


def batch_layout(env: EnvSpec, sizes: Sizes, algorithm: PpoConfig | DqnConfig) -> Layout:
    """One batch as the learner reads it, in place."""
    if isinstance(algorithm, DqnConfig):
        return Layout((*_transitions(env, sizes.batch_size), *TIDINGS))
    return Layout((*_fragments(env, sizes), *TIDINGS))


def _fragments(env: EnvSpec, sizes: Sizes) -> tuple[Field, ...]:
    t, fragments = sizes.rollout, sizes.fragments_per_batch
    cells = (t, fragments * sizes.num_envs)
    return (
        *step_fields(env, cells),
        Field("logp", "float32", cells),
        Field("version", "int64", (t, fragments)),
        # Actor and fragment sequence of each part: what a restarted buffer must not send again. −1: the part is empty.
        Field("source", "int64", (fragments, 2)),
    )


def _transitions(env: EnvSpec, size: int) -> tuple[Field, ...]:
    observation = (size, *env.observation_shape)
    return (
        Field("obs", env.observation_dtype, observation),
        Field("next_obs", env.observation_dtype, observation),
        Field("action", "int64", (size,)),
        Field("ret", "float32", (size,)),
        Field("discount", "float32", (size,)),
        Field("weight", "float32", (size,)),
        Field("index", "int64", (size,)),
        Field("generation", "int64", (size,)),
        Field("version", "int64", (size,)),
    )


def priority_layout(sizes: Sizes) -> Layout:
    """New priorities on their way back from the learner to the replay memory."""
    size = (sizes.batch_size,)
    return Layout(
        (Field("index", "int64", size), Field("generation", "int64", size), Field("priority", "float32", size))
    )
