"""The three numbers of freshness, and the learning rate that follows from one of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.freshness.lags import LAG_BINS, LAG_EDGES, LAG_VALUES, count_lags
from runtime.freshness.measures import (
    flow_ratio,
    lag_statistics,
    learning_rate_scale,
    pool_ratio,
    staleness_ratio,
)

histograms = st.lists(st.integers(0, 5), min_size=4, max_size=12)


@given(histograms)
def test_statistics_of_a_histogram_are_those_of_the_list_it_counts(counts: list[int]) -> None:
    found = lag_statistics(np.array(counts))
    lags = sorted(lag for lag, count in enumerate(counts) for _ in range(count))
    if not lags:
        assert found == lag_statistics(np.zeros(3, np.int64)) and found.samples == 0
        return
    assert found.samples == len(lags) and found.max == lags[-1]
    assert found.mean == pytest.approx(sum(lags) / len(lags))
    for share, quantile in ((0.5, found.p50), (0.95, found.p95)):
        # The smallest lag that at least this share of the samples does not exceed.
        assert quantile == next(lag for lag in lags if sum(x <= lag for x in lags) >= share * len(lags))


@given(histograms, st.integers(1, 15))
def test_the_stale_share_counts_lags_above_the_limit(counts: list[int], limit: int) -> None:
    lags = [lag for lag, count in enumerate(counts) for _ in range(count)]
    expected = sum(lag > limit for lag in lags) / len(lags) if lags else 0.0
    assert staleness_ratio(np.array(counts), limit) == pytest.approx(expected)


def test_without_a_limit_nothing_is_stale() -> None:
    assert staleness_ratio(np.array([0, 0, 9]), None) == 0.0


def test_ratios() -> None:
    assert pool_ratio(256, 1024) == 0.25
    assert flow_ratio(300, 100) == 3.0
    assert flow_ratio(300, 0) == 0.0


def test_the_learning_rate_shrinks_with_the_pool_ratio_and_not_at_all_when_switched_off() -> None:
    assert learning_rate_scale(0.0, 0.5) == 1.0
    assert learning_rate_scale(2.0, 0.5) == pytest.approx(0.5)


@given(st.lists(st.integers(-5, 5_000_000), max_size=50))
def test_every_lag_is_counted_in_the_bin_that_holds_it(lags: list[int]) -> None:
    counts = count_lags(np.array(lags, np.int64))
    expected = [0] * LAG_BINS
    for lag in lags:
        expected[max(index for index, edge in enumerate(LAG_EDGES) if edge <= max(lag, 0))] += 1
    assert counts.tolist() == expected


def test_bins_are_exact_for_small_lags_and_never_off_by_more_than_a_fifth_for_large_ones() -> None:
    assert (np.diff(LAG_EDGES) > 0).all()
    for lag in (*range(32), 100, 1000, 12_345, 500_000):
        value = LAG_VALUES[np.flatnonzero(count_lags(np.array([lag])))[0]]
        assert value == lag if lag < 32 else abs(value - lag) <= 0.2 * lag
