"""Bins for version lags: exact where on-policy limits lie, wider and wider where replayed samples do. Pure.

Bins 0 … 31 are the lags 0 … 31; each of the other 32 is about 1.4 times as wide as the one before, up to a million.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from runtime.models.arrays import Ints

LAG_BINS = 64
_EXACT = 32
_REACH = 1_000_000

#: Smallest lag of each bin; the last bin is open.
LAG_EDGES: Ints = np.concatenate([np.arange(_EXACT), np.geomspace(_EXACT, _REACH, LAG_BINS - _EXACT).round()]).astype(
    np.int64
)
#: The lag that a bin stands for: itself where it is exact, else the geometric middle.
LAG_VALUES: Ints = LAG_EDGES.copy()
LAG_VALUES[_EXACT:-1] = np.sqrt(LAG_EDGES[_EXACT:-1] * (LAG_EDGES[_EXACT + 1 :] - 1)).round()


def count_lags(lag_N: Ints) -> Ints:
    """How many lags fall into each bin, [64]; those below 0 count as 0."""
    bins_N = np.searchsorted(LAG_EDGES, lag_N, side="right") - 1
    return np.bincount(np.maximum(bins_N, 0), minlength=LAG_BINS)
