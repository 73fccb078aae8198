"""The replay memory: a wheel of transitions in arrays that somebody else allocated, so that they outlive it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from runtime.models.arrays import ArraySpec
from runtime.replay.sumtree import SumTree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.contract.algorithm import ReplayConfig
    from runtime.contract.envspec import EnvSpec
    from runtime.models.arrays import Array, Columns, Floats, Ints

#: Elements of the `cursor` array.
POSITION, SIZE, INSERTED = range(3)
_COLUMNS = ("obs", "action", "ret", "discount", "next_obs", "version")


def replay_fields(env: EnvSpec, capacity: int) -> dict[str, ArraySpec]:
    """Names, types and shapes of the memory's arrays for `capacity` transitions."""
    obs = ArraySpec(env.observation_dtype, (capacity, *env.observation_shape))
    return {
        "obs": obs,
        "action": ArraySpec("int64", (capacity,)),
        "ret": ArraySpec("float32", (capacity,)),
        "discount": ArraySpec("float32", (capacity,)),
        "next_obs": obs,
        "version": ArraySpec("int64", (capacity,)),
        "generation": ArraySpec("int64", (capacity,)),
        "priority": ArraySpec("float64", (capacity,)),
        "cursor": ArraySpec("int64", (3,)),
    }


class Replay:
    """Keeps the newest `capacity` transitions and draws from them uniformly or in proportion to priority.

    `arrays` are those of `replay_fields`. Fresh ones must be reset once (`reset`); an attached memory goes on with
    what is in them.
    """

    def __init__(
        self, arrays: Mapping[str, Array], config: ReplayConfig, capacity: int, rng: np.random.Generator
    ) -> None:
        self._arrays = arrays
        self._config = config
        self._capacity = capacity
        self._rng = rng
        self._cursor: Ints = arrays["cursor"]
        self._tree = SumTree(capacity) if config.kind == "proportional" else None
        self._rebuild()

    @staticmethod
    def reset(arrays: Mapping[str, Array]) -> None:
        """Make fresh arrays an empty memory."""
        arrays["cursor"][:] = 0
        arrays["generation"][:] = 0
        arrays["priority"][:] = 0.0

    @property
    def size(self) -> int:
        """Transitions held."""
        return int(self._cursor[SIZE])

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def inserted(self) -> int:
        """Transitions ever inserted."""
        return int(self._cursor[INSERTED])

    def insert(self, columns: Columns) -> int:
        """Add transitions (oldest first), overwriting the oldest held; returns how many."""
        n = len(columns["action"])
        kept = min(n, self._capacity)
        skip = n - kept
        begin = int(self._cursor[POSITION]) + skip
        index_N = (begin + np.arange(kept)) % self._capacity
        top = self._arrays["priority"].max(initial=0.0) if self._tree is not None and self.size else 0.0
        for name in _COLUMNS:
            self._arrays[name][index_N] = columns[name][skip:]
        self._arrays["generation"][index_N] = self.inserted + skip + np.arange(kept)
        # A new transition is as likely as the likeliest until it has been trained on once.
        self._arrays["priority"][index_N] = top if top > 0.0 else 1.0
        if self._tree is not None:
            self._tree.set(index_N, self._arrays["priority"][index_N])
        self._cursor[:] = (
            (begin + kept) % self._capacity, min(self.size + kept, self._capacity), self.inserted + n
        )  # fmt: skip
        return n

    def sample(self, n: int, out: Mapping[str, Array], *, beta: float = 1.0) -> None:
        """Draw `n` transitions, with replacement, into the first `n` rows of the batch fields of `out`."""
        index_N = self._draw(n)
        for name in (*_COLUMNS, "generation"):
            np.take(self._arrays[name], index_N, axis=0, out=out[name][:n])
        out["index"][:n] = index_N
        out["weight"][:n] = self._weights(index_N, beta)

    def update_priorities(self, index_N: Ints, generation_N: Ints, error_N: Floats) -> int:
        """New priorities (|TD error| + ε)^α; entries overwritten since they were drawn are left alone.

        Returns how many were taken.
        """
        if self._tree is None:
            return 0
        current_N = self._arrays["generation"][index_N] == generation_N
        finite_N = np.isfinite(error_N)
        good_N = current_N & finite_N
        index, error = index_N[good_N], error_N[good_N].astype(np.float64)
        priority = (np.abs(error) + self._config.epsilon) ** self._config.alpha
        self._arrays["priority"][index] = priority
        self._tree.set(index, priority)
        return int(good_N.sum())

    def _draw(self, n: int) -> Ints:
        if self.size == 0:
            raise ValueError("nothing to draw from: the replay memory is empty")
        if self._tree is None:
            return self._rng.integers(0, self.size, n)
        # One draw in each of n equal shares of the total mass (stratified: less variance, same expectation).
        mass_N = (np.arange(n) + self._rng.random(n)) * (self._tree.total / n)
        return self._tree.find(mass_N)

    def _weights(self, index_N: Ints, beta: float) -> Floats:
        """(size × probability)^−β, divided by the largest of the batch; 1 for uniform draws."""
        if self._tree is None:
            return np.ones(len(index_N), np.float32)
        probability_N = self._tree.get(index_N) / self._tree.total
        weight_N = (self.size * probability_N) ** -beta
        scaled_N: Floats = (weight_N / weight_N.max()).astype(np.float32)
        return scaled_N

    def _rebuild(self) -> None:
        if self._tree is not None:
            self._tree.rebuild(self._arrays["priority"][: self.size])
