"""Costs that a run has measured count in the next plan, until the host is profiled again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from runtime.contract.states import RunState
from runtime.contract.view import HostCosts, RunView, ShapeView
from support.costs import host_rates
from tianjictl.profiling.calibration import calibrated

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PROFILED = {"cn01": host_rates(actor=100.0), "cn02": host_rates(actor=100.0)}
KEYS = {"cn01": "key-1", "cn02": "key-2"}
AT = dict.fromkeys(KEYS, NOON)


def view(minutes: float, **actor_speed_of: float) -> RunView:
    """A run that was last looked at so long after noon, and what it measured for each key."""
    return RunView(
        run_id=f"run-{minutes:g}",
        name="run",
        state=RunState.STOPPED,
        reason="",
        shape=ShapeView(wanted="L1A1", present="L0A0"),
        updated_at=NOON + timedelta(minutes=minutes),
        costs=tuple(
            HostCosts(host="whatever", rates=host_rates(actor=speed), profile_key=key.replace("_", "-"))
            for key, speed in actor_speed_of.items()
        ),
    )


def speeds(*views: RunView) -> dict[str, float]:
    found = calibrated(PROFILED, KEYS, AT, views)
    return {host: rates.actor_steps_per_s for host, rates in found.rates.items()}


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
    assert [rates.actor_steps_per_s for rates in found.rates.values()] == [80.0, 80.0]
