"""The slots between an actor and its buffer. T steps, B environments per actor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.memory.layout import Field, Layout

if TYPE_CHECKING:
    from runtime.contract.envspec import EnvSpec
    from runtime.contract.plan import Sizes


def fragment_layout(env: EnvSpec, sizes: Sizes, algorithm: str) -> Layout:
    """One fragment as the actor fills it; `algorithm` is the name of its settings (`ppo`, `dqn`).

    `next_obs` is the true successor of `obs`: at an episode's end the final observation. Cells with `valid` False are
    no transitions (reset steps) and are neither counted nor trained on. `version` is that of the policy that chose the
    row's actions, `logp` the log-probability it gave them.
    """
    cells = (sizes.rollout, sizes.num_envs)
    fields = [*step_fields(env, cells), Field("version", "int64", (sizes.rollout,))]
    if algorithm == "ppo":
        fields.append(Field("logp", "float32", cells))
    return Layout(tuple(fields))


def step_fields(env: EnvSpec, cells: tuple[int, int]) -> tuple[Field, ...]:
    """What every step is made of, for `cells` steps × environments; batches of fragments have the same columns."""
    observation = (*cells, *env.observation_shape)
    return (
        Field("obs", env.observation_dtype, observation),
        Field("next_obs", env.observation_dtype, observation),
        Field("action", "int64", cells),
        Field("reward", "float32", cells),
        Field("terminated", "bool", cells),
        Field("truncated", "bool", cells),
        Field("valid", "bool", cells),
    )
