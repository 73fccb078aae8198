"""Costs that a run has measured count in the next plan, until the host is profiled again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from runtime.contract.measurement import ActorRate, LearnerRate, MeasureReport, Spread, TurnRate
from runtime.contract.plan import Sizes
from runtime.contract.states import RunState
from runtime.contract.view import HostCosts, RunView, ShapeView
from support.costs import host_rates
from tianjictl.profiling.calibration import calibrated

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def known(value: float) -> Spread:
    return Spread(median=value, low=value, high=value, repeats=1)


def report(actor: float = 100.0) -> MeasureReport:
    """Twice the environments give 1.6 times the steps; with batches of 64, not 256, a sample costs 3 times as much."""
    return MeasureReport(
        actors=tuple(
            ActorRate(num_envs=envs, busy_neighbours=0, steps_per_s=known(speed), cpu_s_per_step=known(1.0 / speed))
            for envs, speed in ((16, actor), (32, 1.6 * actor))
        ),
        learners=(LearnerRate(cores=1, samples_per_s=known(1000.0), cpu_s_per_sample=known(1e-3)),),
        fragment_samples=256,
        buffer_s_per_fragment=known(0.256),
        memcpy_mb_per_s=known(10_000.0),
        checkpoint_mb_per_s=known(500.0),
        by_turns=tuple(
            TurnRate(num_envs=16, batch_size=batch, learner_s_per_sample=cost, buffer_s_per_fragment=256 * cost)
            for batch, cost in ((256, 1e-3), (64, 3e-3))
        ),
    )


def sizes(num_envs: int, batch: int) -> Sizes:
    return Sizes(
        num_envs=num_envs, rollout=16, batch_size=batch, fragments_per_batch=0, buffer_size=1 << 16, ring_slots=4,
        batch_slots=4, publish_every=4, staleness_tolerance=0.25, pool_ratio=batch / (1 << 16),
    )  # fmt: skip


PROFILED = {"cn01": report(), "cn02": report()}
KEYS = {"cn01": "key-1", "cn02": "key-2"}
AT = dict.fromkeys(KEYS, NOON)


def view(minutes: float, sizes: tuple[int | None, int | None] = (None, None), **actor_speed_of: float) -> RunView:
    """A run that was last looked at so long after noon, and what it measured for each key."""
    return RunView(
        run_id=f"run-{minutes:g}",
        name="run",
        state=RunState.STOPPED,
        reason="",
        shape=ShapeView(wanted="L1A1", present="L0A0"),
        updated_at=NOON + timedelta(minutes=minutes),
        costs=tuple(
            HostCosts(
                host="whatever",
                rates=host_rates(actor=speed, learner=1000.0),
                profile_key=key.replace("_", "-"),
                num_envs=sizes[0],
                batch_size=sizes[1],
            )
            for key, speed in actor_speed_of.items()
        ),
    )


def speeds(*views: RunView) -> dict[str, float]:
    found = calibrated(PROFILED, KEYS, AT, views)
    return {host: each.at().actor_steps_per_s for host, each in found.speeds.items()}


def test_the_newest_run_of_the_same_kind_counts():
    assert speeds(view(20, key_1=80.0), view(10, key_1=70.0, key_2=60.0)) == {"cn01": 80.0, "cn02": 60.0}


def test_a_profile_that_is_newer_than_the_run_counts_more():
    assert speeds(view(-5, key_1=80.0)) == {"cn01": 100.0, "cn02": 100.0}


def test_a_run_of_another_kind_says_nothing():
    assert speeds(view(5, other=80.0)) == {"cn01": 100.0, "cn02": 100.0}


def test_it_is_said_which_run_it_was_and_what_has_changed():
    found = calibrated(PROFILED, KEYS, AT, [view(20, key_1=80.0)])
    assert found.notes == ("cn01: as run-20 measured it (actors -20% against the profile)",)


def test_hosts_that_are_parts_of_one_machine_all_take_what_was_measured_there():
    shared = dict.fromkeys(KEYS, "key-1")
    found = calibrated(PROFILED, shared, AT, [view(20, key_1=80.0)])
    assert [each.at().actor_steps_per_s for each in found.speeds.values()] == [80.0, 80.0]


def test_what_a_run_with_other_sizes_measured_is_carried_over_to_those_that_are_wanted():
    found = calibrated(PROFILED, KEYS, AT, [view(20, (32, 64), key_1=80.0)]).speeds["cn01"]
    assert found.at(sizes(32, 64)).actor_steps_per_s == pytest.approx(80.0)
    assert found.at(sizes(32, 64)).learner[0].samples_per_s == pytest.approx(1000.0)
    assert found.at().actor_steps_per_s == pytest.approx(80.0 / 1.6)
    assert found.at(sizes(16, 256)) == found.at()
    assert found.at().learner[0].samples_per_s == pytest.approx(3000.0)
    assert found.at().learner[0].cpu_s_per_sample == pytest.approx(1e-3 / 3)


def test_a_view_that_does_not_know_its_sizes_is_taken_to_be_of_those_that_were_profiled():
    found = calibrated(PROFILED, KEYS, AT, [view(20, key_1=80.0)]).speeds["cn01"]
    assert found.at().actor_steps_per_s == 80.0
    assert found.at(sizes(32, 256)).actor_steps_per_s == pytest.approx(128.0)
