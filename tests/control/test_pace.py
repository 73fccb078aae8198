"""How fast a number grows: evenly, in leaps, after a silence, from another start."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.messages import ComponentReport
from runtime.contract.states import ComponentState, Role
from runtime.control.pace import LONGEST_S, Pace, Paces
from runtime.control.window import LENGTH_S


def new() -> Pace:
    return Pace(0, 0.0)


def fed(pace: Pace, count: object, until: float, since: float = 0.0, every: float = 0.1) -> list[float]:
    """What it said at each look."""
    said = []
    for tick in range(round((until - since) / every) + 1):
        now = since + tick * every
        pace.add(int(count(now)), now)  # type: ignore[operator]
        said.append(pace.per_s(now))
    return said


@given(period=st.floats(0.3, 14.0), leap=st.integers(1, 10_000), phase=st.floats(0.0, 0.99))
def test_a_number_that_grows_in_leaps_has_a_steady_rate(period: float, leap: int, phase: float) -> None:
    said = fed(new(), lambda now: leap * int(now / period + phase), 110.0)
    rate = leap / period
    settled = said[round(2 * LONGEST_S / 0.1) :]
    # Each leap is seen up to 0.1 s late.
    assert all(each == pytest.approx(rate, rel=0.25 / LENGTH_S + 0.01) for each in settled)


def test_a_number_that_grows_evenly_has_the_rate_of_the_last_ten_seconds() -> None:
    said = fed(new(), lambda now: 100 * now if now <= 20 else 2000 + 300 * (now - 20), 40.0)
    assert said[200] == pytest.approx(100, rel=0.02)
    assert said[250] == pytest.approx(200, rel=0.05), "half of the window is new"
    assert said[305] == pytest.approx(300, rel=0.02), "what was before the window is forgotten"


def test_growth_that_stops_is_seen_at_once_where_it_was_even_and_is_zero_after_the_window() -> None:
    pace = new()
    said = fed(pace, lambda now: 100 * min(now, 30.0), 50.0)
    assert said[350] == pytest.approx(50, rel=0.1)
    assert said[-1] == 0.0


def test_a_leap_that_is_late_is_waited_for_once_and_then_the_rate_falls() -> None:
    pace = new()
    said = fed(pace, lambda now: 60 * min(int(now / 6.0), 5), 60.0)
    assert said[350] == pytest.approx(10.0, rel=0.02), "the leap at 36 s may still come"
    assert said[415] == pytest.approx(10.0, rel=0.02)
    assert 0.0 < said[425] < 10.0
    assert said[-1] == 0.0, "four leaps have not come"


def test_after_a_silence_the_rate_is_soon_that_of_now() -> None:
    pace = new()
    fed(pace, lambda now: 100 * now, 20.0)
    assert fed(pace, lambda _: 2000, 60.0, since=20.1)[-1] == 0.0
    assert fed(pace, lambda now: 2000 + 100 * (now - 60), 63.0, since=60.1)[-1] == pytest.approx(100, rel=0.1)


def test_a_number_that_starts_anew_counts_from_there() -> None:
    """A learner that is replaced without its shard counts from 0."""
    pace = new()
    said = fed(pace, lambda now: 100 * now if now < 10 else 100 * (now - 10), 14.0)
    assert min(said[10:]) >= 90.0
    assert said[-1] == pytest.approx(100, rel=0.05)


def test_nothing_is_known_before_the_first_leap() -> None:
    assert set(fed(Pace(5000, 0.0), lambda _: 5000, 3.0)) == {0.0}


def test_it_remembers_little_however_often_it_is_told() -> None:
    pace = new()
    fed(pace, lambda now: 1000 * now, 30.0, every=0.001)
    assert len(pace._leaps) <= LENGTH_S / 0.25 + 3


def learner(name: str, trained: float, attempt: int = 1) -> ComponentReport:
    counters = {"updates": int(trained) // 100, "samples_trained": int(trained)}
    return ComponentReport(
        name=name, role=Role.LEARNER, state=ComponentState.RUNNING, attempt=attempt, counters=counters
    )


@given(apart=st.floats(0.0, 9.0), period=st.floats(3.0, 10.0))
def test_learners_whose_batches_come_close_together_have_the_sum_of_their_rates(apart: float, period: float) -> None:
    paces = Paces()
    for tick in range(900):
        now = tick * 0.1
        paces.take([learner("learner-0", 6144 * int(now / period))], now)
        paces.take([learner("learner-1", 6144 * int((now + apart) / period))], now)
        if now > 2 * LONGEST_S:
            assert paces.per_s("samples_trained", now) == pytest.approx(2 * 6144 / period, rel=0.04)


def test_a_replaced_learner_that_goes_on_from_its_shard_has_not_made_that_meanwhile() -> None:
    paces = Paces()
    for tick in range(200):
        now = tick * 0.1
        paces.take([learner("learner-0", 100 * now)], now)
    paces.take([learner("learner-0", 0, attempt=2)], 20.0)
    paces.take([learner("learner-0", 0, attempt=2).model_copy(update={"state": ComponentState.STARTING})], 20.1)
    for tick in range(202, 260):
        paces.take([learner("learner-0", 50_000 + 10 * tick, attempt=3)], tick * 0.1)
    assert paces.per_s("samples_trained", 26.0) == pytest.approx(100, rel=0.15)


def test_who_has_left_the_plan_counts_no_more() -> None:
    paces = Paces()
    for tick in range(100):
        paces.take([learner(name, 10 * tick) for name in ("learner-0", "learner-1")], tick * 0.1)
    assert paces.per_s("samples_trained", 9.9) == pytest.approx(200, rel=0.05)
    paces.keep({"learner-0"})
    assert paces.per_s("samples_trained", 9.9) == pytest.approx(100, rel=0.05)
