"""Means of parameter vectors: over peer learners, and over time (the shadow)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.models.arrays import Floats


def average_into(params: Floats, peers: Sequence[Floats]) -> int:
    """params ← mean(params, peers), leaving out peers that hold a non-finite value; returns how many peers counted."""
    good = [peer for peer in peers if np.isfinite(peer).all()]
    if good:
        total = params.astype(np.float64)
        for peer in good:
            total += peer
        params[:] = total / (len(good) + 1)
    return len(good)


def track(shadow: Floats, params: Floats, rate: float) -> None:
    """shadow ← shadow + rate × (params − shadow), in place."""
    shadow += np.float32(rate) * (params - shadow)
