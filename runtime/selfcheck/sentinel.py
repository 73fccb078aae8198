"""A loss that is no number must be noticed, and must change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from runtime.algorithms.registry import make_algorithm
from runtime.contract.algorithm import NetworkConfig, PpoConfig
from runtime.contract.envspec import EnvSpec
from runtime.contract.plan import Sizes
from runtime.contract.states import Role
from runtime.seeding import seed_sequence
from runtime.selfcheck.finding import Seen

if TYPE_CHECKING:
    from runtime.algorithms.base import Algorithm, UpdateReport
    from runtime.contract.algorithm import DqnConfig

_T, _B, _O, _A = 8, 4, 3, 2  # steps, environments, observation, actions
_ENV = EnvSpec(id="made-up", observation_shape=(_O,), num_actions=_A, native_vector=False, autoreset="next-step")
_SMALL = NetworkConfig(hidden=(8, 8), engine="numpy")


def check_not_finite(config: PpoConfig | DqnConfig, seed: int) -> Seen:
    """The job's algorithm with a tiny network: a good batch, some bad ones, a good one."""
    algorithm = make_algorithm(_tiny(config), _ENV, _sizes(), seed_sequence(seed, Role.LEARNER, 0, 0))
    data = _batch(config, np.random.default_rng(seed))
    before = algorithm.params.copy()
    if not _update(algorithm, data).finite or np.array_equal(before, algorithm.params):
        return Seen(False, "an update with a good batch does not change the parameters")
    pay = "reward" if isinstance(config, PpoConfig) else "ret"
    reasons = []
    poisons = [(pay, np.nan), ("obs", np.nan), (pay, np.inf)]
    if isinstance(config, PpoConfig):
        poisons.append((pay, 1e30))  # a number, but its square is none: only the loss shows it
    for column, poison in poisons:
        kept = {name: array.copy() for name, array in algorithm.state().items()}
        spoilt = data | {column: data[column].copy()}
        spoilt[column].reshape(-1)[0] = poison
        report = _update(algorithm, spoilt)
        what = f"an update with {poison} in {column}"
        if report.finite:
            return Seen(False, f"{what} is taken for a good one", "reported as not finite", "reported as finite")
        changed = [name for name, array in algorithm.state().items() if not np.array_equal(array, kept[name])]
        if changed:
            return Seen(False, f"{what} is noticed too late", "nothing changed", f"{', '.join(changed)} changed")
        reasons.append(report.reason)
    if not _update(algorithm, data).finite:
        return Seen(False, "after a bad batch a good one is refused too")
    return Seen(
        True, f"{len(reasons)} bad batches change nothing and are reported ({'; '.join(dict.fromkeys(reasons))})"
    )


def _update(algorithm: Algorithm, data: dict[str, np.ndarray]) -> UpdateReport:
    return algorithm.update(data, env_steps=0, learning_rate_scale=1.0, beat=lambda: None)


def _tiny(config: PpoConfig | DqnConfig) -> PpoConfig | DqnConfig:
    if isinstance(config, PpoConfig):
        return config.model_copy(update={"network": _SMALL, "minibatch": _T * _B})
    return config.model_copy(update={"network": _SMALL})


def _sizes() -> Sizes:
    return Sizes(
        num_envs=_B, rollout=_T, batch_size=_T * _B, fragments_per_batch=1, buffer_size=4 * _T * _B, ring_slots=2,
        batch_slots=2, publish_every=1, staleness_tolerance=1.0, pool_ratio=0.25,
    )  # fmt: skip


def _batch(config: PpoConfig | DqnConfig, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Made-up samples, as the algorithm takes them: [T, B] of steps, or [N] transitions."""
    cells = (_T, _B) if isinstance(config, PpoConfig) else (_T * _B,)
    ones = np.ones(cells, np.float32)
    no = np.zeros(cells, np.bool_)
    return {
        "obs": rng.normal(size=(*cells, _O)).astype(np.float32),
        "next_obs": rng.normal(size=(*cells, _O)).astype(np.float32),
        "action": rng.integers(0, _A, cells),
        "reward": rng.normal(size=cells).astype(np.float32), "terminated": no, "truncated": no, "valid": ~no,
        "logp": -np.log(2.0) * ones,
        "ret": rng.normal(size=cells).astype(np.float32), "discount": np.float32(0.9) * ones, "weight": ones,
    }  # fmt: skip
