"""The categorical distribution, from logits. Legend: N rows, A actions; fastest where arrays are column-major."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from runtime.models.arrays import Array, Floats, Ints


def log_softmax(logits_NA: Floats) -> Floats:
    """logits − log Σ exp(logits) along the last axis, [N, A]; stable for any finite logits. Keeps the memory order."""
    shifted_NA: Floats = logits_NA - logits_NA.max(axis=1)[:, None]
    total_N = np.exp(shifted_NA).sum(axis=1)
    np.subtract(shifted_NA, np.log(total_N)[:, None], out=shifted_NA)
    return shifted_NA


def log_probs_of(action_TB: Ints, logits_TAB: Floats, out_TB: Floats) -> None:
    """Log-probabilities of the chosen actions of many steps at once. Actions lie side by side: [T, A, B]."""
    steps, actions, width = logits_TAB.shape
    shifted_TAB = logits_TAB - np.maximum.reduce(logits_TAB, axis=1, keepdims=True)
    start_T1 = np.arange(0, steps * actions * width, actions * width)[:, None]
    picked_TB = shifted_TAB.reshape(-1).take(action_TB * width + (start_T1 + np.arange(width)))
    np.subtract(picked_TB, np.log(np.exp(shifted_TAB).sum(axis=1)), out=out_TB)


def column_major(rows: int, columns: int) -> Floats:
    """Zeros [rows, columns] whose columns are contiguous."""
    return np.zeros((columns, rows), np.float32).T


class Picks:
    """One element of each row: `values[n, column[n]]`, read and added to without building index pairs each time."""

    def __init__(self, column_N: Ints) -> None:
        n = len(column_N)
        self._flat_N = column_N * n + np.arange(n)

    def of(self, values_NA: Array) -> Floats:
        """The picked elements [N]; `values_NA` is column-major."""
        return values_NA.T.reshape(-1).take(self._flat_N)

    def add_to(self, values_NA: Array, amount_N: Floats) -> None:
        """Add to the picked elements in place; `values_NA` is column-major."""
        flat = values_NA.T.reshape(-1)
        if not np.may_share_memory(flat, values_NA):
            raise ValueError("the array is not column-major: the sum would be lost")
        flat[self._flat_N] += amount_N
