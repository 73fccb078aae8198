"""The balance of production and training, and what is said when a number is out of bounds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.job import Job
from runtime.freshness.advice import Rule, freshness_advice
from runtime.freshness.critical_path import critical_path
from runtime.freshness.pace import Pace


@given(
    st.floats(0.1, 32), st.integers(0, 500), st.integers(1, 64), st.integers(1, 64), st.floats(0, 300),
    st.lists(st.booleans(), min_size=50, max_size=200),
)  # fmt: skip
def test_training_and_production_never_drift_apart_nor_lock_up(
    ratio: float, start: int, batch: int, fragment: int, slack: float, turns: list[bool]
) -> None:
    pace, trained, inserted = Pace(ratio, start, slack), 0, 0
    for learner_first in turns:
        may_train = pace.may_sample(trained=trained, inserted=inserted)
        may_insert = pace.may_insert(trained=trained, inserted=inserted)
        assert may_train or may_insert
        if may_train and (learner_first or not may_insert):
            trained += batch
        elif may_insert:
            inserted += fragment
        if inserted >= start:
            owed = pace.owed(trained=trained, inserted=inserted)
            assert -slack - batch - 1e-6 <= owed <= slack + ratio * fragment + 1e-6


def test_nothing_is_trained_before_the_start_and_nothing_then_is_owed() -> None:
    pace = Pace(8.0, 100, 0.0)
    assert not pace.may_sample(trained=0, inserted=99)
    assert pace.may_insert(trained=0, inserted=99)
    assert pace.owed(trained=0, inserted=100) == 0.0
    assert pace.may_sample(trained=0, inserted=101) and not pace.may_sample(trained=8, inserted=101)


@pytest.mark.parametrize("bad", [(0.0, 1, 1.0), (1.0, -1, 1.0), (1.0, 1, -1.0)])
def test_a_pace_that_makes_no_sense_is_refused(bad: tuple[float, int, float]) -> None:
    with pytest.raises(ValueError, match="a pace needs"):
        Pace(*bad)


def rules(batch: int = 100, buffer: int = 1000, tolerance: float = 0.2, staleness: float | None = 0.2) -> list[Rule]:
    found = freshness_advice(batch_size=batch, buffer_size=buffer, tolerance=tolerance, staleness=staleness)
    return [advice.rule for advice in found]


def test_each_rule_speaks_in_its_range_only() -> None:
    assert rules() == []
    assert rules(staleness=None) == []
    assert rules(batch=201) == [Rule.SHRINK_POOL_RATIO]
    assert rules(staleness=0.31) == [Rule.MORE_LEARNERS]
    assert rules(staleness=0.09) == [Rule.LARGER_BATCH]
    assert rules(batch=201, staleness=0.0) == [Rule.SHRINK_POOL_RATIO]
    assert rules(batch=201, staleness=0.9) == [Rule.SHRINK_POOL_RATIO, Rule.MORE_LEARNERS]


@given(st.integers(1, 10**5), st.integers(1, 10**6), st.floats(0.01, 1.0))
def test_what_is_proposed_fits(batch: int, buffer: int, tolerance: float) -> None:
    for advice in freshness_advice(batch_size=batch, buffer_size=buffer, tolerance=tolerance, staleness=None):
        assert advice.batch_size is not None and advice.buffer_size is not None
        assert batch / advice.buffer_size <= tolerance * (1 + 1e-12)
        assert advice.batch_size == 1 or advice.batch_size / buffer <= tolerance


def test_a_larger_batch_keeps_the_pool_ratio() -> None:
    (advice,) = freshness_advice(batch_size=100, buffer_size=1000, tolerance=0.2, staleness=0.0)
    assert (advice.batch_size, advice.buffer_size) == (200, 2000)
    for part in (
        "half as many updates",
        "P stays 0.1",
        "--set training.batch_size=200 --set distributed.buffer_size=2000",
    ):
        assert part in advice.message


@pytest.mark.parametrize(("batch", "staleness"), [(400, None), (100, 0.0)])
def test_the_options_that_are_advised_are_keys_of_a_job(batch: int, staleness: float | None) -> None:
    (advice,) = freshness_advice(batch_size=batch, buffer_size=1000, tolerance=0.2, staleness=staleness)
    options = re.findall(r"--set (\w+)\.(\w+)=(\d+)", advice.message)
    assert {name for _, name, _ in options} == {"batch_size", "buffer_size"}
    for part, name, value in options:
        known = {"name": "x", "env": {"id": "CartPole-v1"}, "algorithm": {"name": "ppo"}}
        assert Job.model_validate({**known, part: {name: int(value)}})


def side(t_sp: float | None, t_rv: float | None, actors: int, busy: float | None) -> str:
    return critical_path(t_sp_s=t_sp, t_rv_s=t_rv, num_actors=actors, learner_busy=busy).side


def test_the_limiting_side_follows_from_the_measured_times() -> None:
    assert side(None, 0.001, 4, 0.5) == side(0.01, None, 4, 0.5) == side(0.01, 0.001, 0, 0.5) == "unknown"
    assert side(0.010, 0.003, 4, 0.5) == "receiver"
    assert side(0.010, 0.001, 4, 0.95) == "learner"
    assert side(0.010, 0.001, 4, 0.5) == "actors"
    assert critical_path(t_sp_s=0.01, t_rv_s=0.003, num_actors=4, learner_busy=None).round_s == pytest.approx(0.012)


def test_the_advice_shows_the_numbers() -> None:
    path = critical_path(t_sp_s=0.010, t_rv_s=0.003, num_actors=4, learner_busy=0.5)
    assert "T_sp 10 ms" in path.advice and "4 × T_rv 12 ms" in path.advice


@pytest.mark.parametrize("busy", [0.5, 1.0])
def test_where_strangers_have_the_cores_no_other_shape_is_advised(busy: float) -> None:
    path = critical_path(t_sp_s=0.010, t_rv_s=0.001, num_actors=4, learner_busy=busy, others="others have 76% of it")
    assert path.advice.startswith("others have 76% of it (") and path.advice.endswith("free it")
