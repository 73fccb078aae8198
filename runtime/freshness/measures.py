"""How fresh samples are: three numbers, each with its own name. Pure functions of counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from runtime.freshness.lags import LAG_EDGES, LAG_VALUES

if TYPE_CHECKING:
    from runtime.models.arrays import Ints


def pool_ratio(batch_size: int, buffer_size: int) -> float:
    """P = B_s / N_s: the share of the buffer that one batch takes."""
    return batch_size / buffer_size


def flow_ratio(consumed: float, produced: float) -> float:
    """Samples trained on per sample produced, of two increments or two rates; 0 where none was produced."""
    return consumed / produced if produced > 0 else 0.0


class LagStatistics(NamedTuple):
    """Of learner version at use − version that made the sample."""

    mean: float = 0.0
    p50: int = 0
    p95: int = 0
    max: int = 0
    samples: int = 0


def lag_statistics(histogram: Ints) -> LagStatistics:
    """From counts of samples per bin of `lags.LAG_EDGES` (or its first bins): exact up to a lag of 31."""
    counts = np.asarray(histogram, np.int64)
    total = int(counts.sum())
    if total == 0:
        return LagStatistics()
    lags = LAG_VALUES[: len(counts)]
    cumulated = np.cumsum(counts)
    return LagStatistics(
        mean=float((lags * counts).sum() / total),
        p50=int(lags[np.searchsorted(cumulated, 0.50 * total)]),
        p95=int(lags[np.searchsorted(cumulated, 0.95 * total)]),
        max=int(lags[np.flatnonzero(counts)[-1]]),
        samples=total,
    )


def staleness_ratio(histogram: Ints, max_lag: int | None) -> float:
    """The share of samples whose lag is above `max_lag`; 0 where there is no limit or there are no samples.

    A bin that the limit falls into counts as fresh: its lags cannot be told apart.
    """
    counts = np.asarray(histogram, np.int64)
    total = int(counts.sum())
    if max_lag is None or total == 0:
        return 0.0
    return float(counts[LAG_EDGES[: len(counts)] > max_lag].sum() / total)


def learning_rate_scale(staleness_coefficient: float, ratio: float) -> float:
    """1 / (1 + λ·P): a batch that takes much of the buffer is trusted less."""
    return 1.0 / (1.0 + staleness_coefficient * ratio)
