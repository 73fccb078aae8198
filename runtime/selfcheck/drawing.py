"""Prioritised replay: what is drawn how often, and how much it then counts."""

from __future__ import annotations

import numpy as np

from runtime.contract.algorithm import DqnConfig, PpoConfig, ReplayConfig
from runtime.contract.envspec import EnvSpec
from runtime.replay.memory import Replay, replay_fields
from runtime.selfcheck.finding import Seen

_CAPACITY, _DRAWS, _ROUNDS = 50, 500, 40
_BETA = 0.5
_SIGMAS = 5.0
_ENV = EnvSpec(id="made-up", observation_shape=(1,), num_actions=2, native_vector=False, autoreset="next-step")


def replay_settings(algorithm: PpoConfig | DqnConfig) -> ReplayConfig:
    """The job's own exponents where it draws by priority; the defaults otherwise."""
    if isinstance(algorithm, DqnConfig) and algorithm.replay.kind == "proportional" and algorithm.replay.alpha > 0.0:
        return algorithm.replay
    return ReplayConfig(kind="proportional")


def check_prioritised_replay(config: ReplayConfig, seed: int) -> Seen:
    """Frequencies by χ², importance weights by their formula, and that what was overwritten keeps its new priority."""
    arrays = {name: np.zeros(field.shape, field.dtype) for name, field in replay_fields(_ENV, _CAPACITY).items()}
    Replay.reset(arrays)
    memory = Replay(arrays, config, _CAPACITY, np.random.default_rng(seed))
    memory.insert(_transitions(0, _CAPACITY))
    index_N = np.arange(_CAPACITY)
    error_N = 0.05 + 2.0 * ((7 * index_N) % _CAPACITY) / _CAPACITY  # 0.05 … 2.01, in no order
    memory.update_priorities(index_N, index_N, error_N.astype(np.float32))
    memory.insert(_transitions(_CAPACITY, 1))  # takes the oldest one's place
    late = memory.update_priorities(index_N[:1], index_N[:1], np.full(1, 1e6, np.float32))
    if late:
        return Seen(False, "a transition took the priority of the one that it has replaced", "0 updated", f"{late}")
    mass_N = (np.abs(error_N.astype(np.float32)).astype(np.float64) + config.epsilon) ** config.alpha
    mass_N[0] = mass_N.max()  # a new one is as likely as the likeliest
    return _drawn(memory, mass_N / mass_N.sum())


def _drawn(memory: Replay, probability_N: np.ndarray) -> Seen:
    out = {
        name: np.zeros((_DRAWS, *field.shape[1:]), field.dtype)
        for name, field in replay_fields(_ENV, _CAPACITY).items()
    }
    out |= {"index": np.zeros(_DRAWS, np.int64), "weight": np.zeros(_DRAWS, np.float32)}
    counts_N = np.zeros(_CAPACITY)
    for _ in range(_ROUNDS):
        memory.sample(_DRAWS, out, beta=_BETA)
        counts_N += np.bincount(out["index"], minlength=_CAPACITY)
    expected_N = probability_N * _DRAWS * _ROUNDS
    chi2 = float(((counts_N - expected_N) ** 2 / expected_N).sum())
    freedom = _CAPACITY - 1
    limit = freedom + _SIGMAS * (2.0 * freedom) ** 0.5
    if chi2 > limit:
        worst = int(np.argmax(np.abs(counts_N - expected_N) / np.sqrt(expected_N)))
        return Seen(
            False, f"transitions are not drawn in proportion to (|error| + ε)^α: transition {worst} is the worst",
            f"drawn {expected_N[worst]:.0f} times (χ² up to {limit:.0f})", f"{counts_N[worst]:.0f} (χ² {chi2:.0f})",
        )  # fmt: skip
    if not np.array_equal(out["action"], memory_actions(out["index"])):
        return Seen(False, "what is drawn is not what lies at the index that is given with it")
    weight_N = (_CAPACITY * probability_N[out["index"]]) ** -_BETA
    off = float(np.abs(out["weight"] - weight_N / weight_N.max()).max())
    if off > 1e-4:
        return Seen(
            False, "importance weights are not (size × probability)^−β over the largest", "equal", f"off by {off:.3g}"
        )  # fmt: skip
    return Seen(
        True, f"{_DRAWS * _ROUNDS:,} draws of {_CAPACITY} transitions match their priorities (χ² {chi2:.0f}, "
        f"allowed {limit:.0f}); importance weights are right",
    )  # fmt: skip


def memory_actions(index_N: np.ndarray) -> np.ndarray:
    """The action that was stored at each index: the number of its transition."""
    return np.where(index_N == 0, _CAPACITY, index_N)


def _transitions(first: int, count: int) -> dict[str, np.ndarray]:
    """Transitions that can be told apart: the action is the number of the transition."""
    number_N = np.arange(first, first + count)
    obs_N = number_N[:, None].astype(np.float32)
    ones_N = np.ones(count, np.float32)
    return {
        "obs": obs_N, "action": number_N, "ret": ones_N, "discount": ones_N, "next_obs": obs_N, "version": number_N,
    }  # fmt: skip
