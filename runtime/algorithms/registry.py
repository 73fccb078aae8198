"""From the job's algorithm settings to the object that learns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from runtime.algorithms.dqn.algorithm import Dqn
from runtime.algorithms.ppo.algorithm import Ppo
from runtime.models.arrays import ArraySpec
from runtime.models.spec import NetworkSpec

if TYPE_CHECKING:
    from runtime.algorithms.base import Algorithm
    from runtime.contract.algorithm import DqnConfig, PpoConfig
    from runtime.contract.envspec import EnvSpec
    from runtime.contract.plan import Sizes


def make_algorithm(
    config: PpoConfig | DqnConfig, env: EnvSpec, sizes: Sizes, seed: np.random.SeedSequence
) -> Algorithm:
    """The algorithm with fresh parameters.

    The initial parameters depend on the run's seed (`seed.entropy`) alone, so that peer learners start from the same
    point and may average; shuffling depends on the whole of `seed`.
    """
    spec = NetworkSpec.of(env, config)
    initial = spec.initial(np.random.default_rng(np.random.SeedSequence(seed.entropy)))
    if config.name == "ppo":
        return Ppo(config, spec, initial, rows=sizes.batch_size, seed=seed)
    return Dqn(config, spec, initial, rows=sizes.batch_size)


def state_fields(config: PpoConfig | DqnConfig, env: EnvSpec) -> dict[str, ArraySpec]:
    """Names, types and shapes of `Algorithm.state()`, without building the algorithm."""
    size = (NetworkSpec.of(env, config).layout.size,)
    fields = {name: ArraySpec("float32", size) for name in ("params", "adam_mean", "adam_square")}
    if config.name == "dqn":
        fields["target"] = ArraySpec("float32", size)
    fields["counters"] = ArraySpec("int64", (2,))
    return fields
