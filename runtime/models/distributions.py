"""The categorical distribution, from logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from runtime.models.arrays import Floats


def log_softmax(logits_NA: Floats, out: Floats) -> Floats:
    """logits − log Σ exp(logits) along the last axis, into `out` [N, A]; stable for any finite logits."""
    np.subtract(logits_NA, row_max(logits_NA)[:, None], out=out)
    total_N = np.exp(out).sum(axis=1)
    np.subtract(out, np.log(total_N)[:, None], out=out)
    return out


def row_max(values_NA: Floats) -> Floats:
    """The largest of each row, [N]. For a handful of columns this is far faster than a reduction over a short axis."""
    columns = values_NA.shape[1]
    if columns > 8:
        largest_N: Floats = values_NA.max(axis=1)
        return largest_N
    best_N: Floats = values_NA[:, 0]
    for column in range(1, columns):
        best_N = np.maximum(best_N, values_NA[:, column])
    return best_N
