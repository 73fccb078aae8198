"""Builders with dull defaults for the tests of algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime.algorithms.base import Algorithm
from runtime.algorithms.registry import make_algorithm
from runtime.contract.algorithm import DqnConfig, NetworkConfig, PpoConfig
from runtime.contract.envspec import EnvSpec
from runtime.contract.plan import Sizes

ENV = EnvSpec(id="E", observation_shape=(4,), num_actions=3, native_vector=True, autoreset="next-step")


def sizes(batch_size: int) -> Sizes:
    return Sizes(
        num_envs=8, rollout=8, batch_size=batch_size, fragments_per_batch=1, buffer_size=4 * batch_size, ring_slots=2,
        batch_slots=2, publish_every=1, staleness_tolerance=0.5, pool_ratio=0.25,
    )  # fmt: skip


def config(name: str, **changes: Any) -> PpoConfig | DqnConfig:
    network = NetworkConfig(hidden=(16, 16), activation="tanh")
    if name == "ppo":
        return PpoConfig(**{"name": "ppo", "network": network, "epochs": 2, "minibatch": 16} | changes)
    return DqnConfig(**{"name": "dqn", "network": network} | changes)


def make(name: str, *, seed: int = 0, attempt: int = 0, index: int = 0, **changes: Any) -> Algorithm:
    sequence = np.random.SeedSequence(seed, spawn_key=(2, index, attempt))
    return make_algorithm(config(name, **changes), ENV, sizes(64 if name == "ppo" else 32), sequence)


def ppo_batch(seed: int = 0, steps: int = 8, width: int = 8) -> dict[str, np.ndarray]:
    """Random cells whose observations follow each other as in an environment with next-step autoreset."""
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(steps + 1, width, 4)).astype(np.float32)
    terminated, truncated = rng.random((2, steps, width)) < 0.1
    valid = np.ones((steps, width), bool)
    valid[1:] = ~(terminated | truncated)[:-1]
    return {
        "obs": obs[:-1], "next_obs": obs[1:].copy(), "action": rng.integers(0, 3, (steps, width)),
        "reward": rng.normal(size=(steps, width)).astype(np.float32), "terminated": terminated & valid,
        "truncated": truncated & valid, "valid": valid, "logp": np.full((steps, width), -np.log(3), np.float32),
        "version": np.zeros((steps, 1), np.int64),
    }  # fmt: skip


def dqn_batch(seed: int = 0, n: int = 32) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "obs": rng.normal(size=(n, 4)).astype(np.float32), "next_obs": rng.normal(size=(n, 4)).astype(np.float32),
        "action": rng.integers(0, 3, n), "ret": rng.normal(size=n).astype(np.float32),
        "discount": rng.choice([0.0, 0.97], n).astype(np.float32), "weight": rng.uniform(0.2, 1, n).astype(np.float32),
    }  # fmt: skip


def batch(name: str, seed: int = 0) -> dict[str, np.ndarray]:
    return ppo_batch(seed) if name == "ppo" else dqn_batch(seed)


def update(algorithm: Algorithm, data: dict[str, np.ndarray], *, env_steps: int = 0, scale: float = 1.0):
    return algorithm.update(data, env_steps=env_steps, learning_rate_scale=scale, beat=lambda: None)
