"""What is drawn of a run, and the pages on which TensorBoard puts it together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from runtime.contract.states import ComponentState, Role
from runtime.contract.view import Freshness
from runtime.metrics.curves import curves, lag_quantile
from runtime.metrics.sinks import Thinned
from runtime.metrics.tensorboard_layout import PAGES, Band
from support.whole_view import component, whole_view

if TYPE_CHECKING:
    from collections.abc import Mapping

DRAWN = curves(whole_view())


def test_predicted_rates_stand_beside_measured_ones() -> None:
    assert DRAWN["rates/samples_per_s"] == 800.0
    assert DRAWN["rates/predicted_samples_per_s"] == 1000.0


def test_the_ledger_is_drawn_whole() -> None:
    rest = sum(DRAWN[f"samples/{name}"] for name in ("consumed", "dropped_stale", "dropped_other", "in_flight"))
    assert DRAWN["samples/produced"] == rest == 1000


def test_gauges_are_means_of_those_that_work_and_of_each_learner_where_there_are_several() -> None:
    assert DRAWN["learner/loss"] == 1.0
    assert (DRAWN["learner/learner-0/loss"], DRAWN["learner/learner-1/loss"]) == (0.5, 1.5)
    dead = component(Role.LEARNER, 1, value=9.0, state=ComponentState.BACKOFF)
    assert curves(whole_view(components=(component(Role.LEARNER), dead)))["learner/loss"] == 0.5
    assert not [name for name in curves(whole_view(components=(component(Role.LEARNER),))) if "learner-0" in name]


def test_the_number_of_curves_is_bounded() -> None:
    many = tuple(component(role, index) for role in (Role.LEARNER, Role.ACTOR) for index in range(200))
    assert len(curves(whole_view(components=many))) <= 160


def test_what_is_not_known_or_not_finite_is_left_out() -> None:
    odd = component(Role.LEARNER, gauges={"loss": float("nan"), "entropy": 0.5})
    drawn = curves(whole_view(components=(odd,), freshness=Freshness()))
    assert "learner/loss" not in drawn
    assert drawn["learner/entropy"] == 0.5
    assert "freshness/version_lag_p05" not in drawn


@pytest.mark.parametrize(("share", "lag"), [(0.05, 0.0), (0.3, 0.0), (0.31, 1.0), (0.7, 1.0), (0.95, 8.0), (1.0, 32.0)])
def test_a_quantile_is_where_that_share_of_the_samples_is_reached(share: float, lag: float) -> None:
    assert lag_quantile(whole_view().freshness.lag_bins, share) == lag


def test_every_curve_of_a_page_is_drawn() -> None:
    tags = [
        tag
        for _, charts in PAGES
        for chart in charts
        for tag in ((chart.value, chart.lower, chart.upper) if isinstance(chart, Band) else chart.tags)
    ]
    assert [tag for tag in tags if not any(re.fullmatch(tag, name) for name in DRAWN)] == []


class Kept:
    def __init__(self) -> None:
        self.points: list[int] = []

    def write(self, step: int, values: Mapping[str, float], *, time_s: float) -> None:
        del values, time_s
        self.points.append(step)

    def close(self) -> None:
        self.points.append(-1)


def test_points_are_thinned_as_a_run_grows_old_and_the_newest_is_never_lost() -> None:
    kept = Kept()
    sink = Thinned(kept)
    hours = 48
    for second in range(hours * 3600 + 30):
        sink.write(second, {}, time_s=5000.0 + second)
    assert kept.points[:500] == list(range(500)), "all of the first minutes"
    assert len(kept.points) < 6000
    gaps = [after - before for before, after in zip(kept.points, kept.points[1:], strict=False)]
    assert max(gaps) <= 61
    sink.close()
    assert kept.points[-2:] == [hours * 3600 + 29, -1]


def test_a_clock_that_is_set_back_stops_nothing() -> None:
    kept = Kept()
    sink = Thinned(kept)
    for second in (0, 90_000, 100, 101):
        sink.write(second, {}, time_s=1e6 + second)
    assert kept.points == [0, 90_000, 100, 101]
