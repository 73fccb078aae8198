"""Sums over an array in a binary tree: draws in proportion to priorities, many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from runtime.models.arrays import Doubles, Ints


class SumTree:
    """`capacity` leaves, all 0 at first. Node i has the children 2i and 2i + 1; the root is node 1."""

    def __init__(self, capacity: int) -> None:
        self._leaves = 1 << max(capacity - 1, 1).bit_length()
        self._depth = self._leaves.bit_length() - 1
        self._nodes = np.zeros(2 * self._leaves)

    @property
    def total(self) -> float:
        return float(self._nodes[1])

    def get(self, index_N: Ints) -> Doubles:
        return self._nodes[self._leaves + index_N]

    def set(self, index_N: Ints, value_N: Doubles) -> None:
        """Set leaves (the last one wins where an index occurs twice) and the sums above them."""
        nodes, node_N = self._nodes, self._leaves + index_N
        nodes[node_N] = value_N
        for _ in range(self._depth):
            node_N = node_N >> 1
            nodes[node_N] = nodes[2 * node_N] + nodes[2 * node_N + 1]

    def rebuild(self, value_C: Doubles) -> None:
        """Set the first leaves to `value_C`, the rest to 0, and all sums."""
        nodes = self._nodes
        nodes[:] = 0.0
        nodes[self._leaves : self._leaves + len(value_C)] = value_C
        first = self._leaves >> 1
        while first:
            nodes[first : 2 * first] = nodes[2 * first : 4 * first : 2] + nodes[2 * first + 1 : 4 * first : 2]
            first >>= 1

    def find(self, mass_N: Doubles) -> Ints:
        """The leaf in whose interval each mass in [0, total) lies, if leaves are laid out one after another."""
        nodes, rest_N = self._nodes, mass_N.copy()
        node_N = np.ones(len(mass_N), np.int64)
        for _ in range(self._depth):
            node_N = 2 * node_N
            left_N = nodes[node_N]
            # Never step into an empty right side, whatever rounding left over.
            right_N = (rest_N >= left_N) & (nodes[node_N + 1] > 0.0)
            rest_N -= np.where(right_N, left_N, 0.0)
            node_N += right_N
        return node_N - self._leaves
