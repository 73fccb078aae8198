"""Many hosts at a time: nobody waits for a slow one, what may pass is tried again, and each has its own outcome."""

from __future__ import annotations

import threading
import time

import pytest

from tianjictl.errors import UsageProblem
from tianjictl.remote.failures import CommandTimedOut, HostFailure, HostKeyRefused, Phase
from tianjictl.remote.fanout import Err, Limits, Ok, fan_out, wait_before

QUICK = Limits(first_wait_s=0.01, longest_wait_s=0.02)


def named(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def test_outcomes_are_in_the_order_of_the_hosts_and_told_as_they_come():
    first_may_end = threading.Event()
    told: list[str] = []

    def task(name: str) -> str:
        if name == "a":
            assert first_may_end.wait(10)
        return name.upper()

    def tell(name: str, _outcome: object) -> None:
        told.append(name)
        if len(told) == 2:
            first_may_end.set()

    outcomes = fan_out(named("a", "b", "c"), task, on_outcome=tell)
    assert [(name, outcome.value) for name, outcome in outcomes.items() if isinstance(outcome, Ok)] == [
        ("a", "A"), ("b", "B"), ("c", "C"),
    ]  # fmt: skip
    assert sorted(told[:2]) == ["b", "c"]


def test_a_host_that_never_ends_is_given_up_and_what_it_comes_to_later_is_discarded():
    may_end, discarded = threading.Event(), threading.Event()
    late: list[str] = []

    def task(name: str) -> str:
        if name == "slow":
            may_end.wait(30)
        return name

    def discard(value: str) -> None:
        late.append(value)
        discarded.set()

    began = time.monotonic()
    outcomes = fan_out(named("slow", "a", "b"), task, limits=Limits(parallel=1, host_s=0.3), discard=discard)
    assert time.monotonic() - began < 25  # it was not waited for
    assert isinstance(outcomes["slow"], Err)
    assert isinstance(outcomes["slow"].error, CommandTimedOut)
    assert [name for name, outcome in outcomes.items() if isinstance(outcome, Ok)] == ["a", "b"]
    may_end.set()
    assert discarded.wait(10)
    assert late == ["slow"]


def test_only_what_may_pass_is_tried_again_and_not_for_ever():
    tries: dict[str, int] = {"throttled": 0, "for good": 0, "stranger": 0}

    def task(name: str) -> int:
        tries[name] += 1
        if name == "stranger":
            raise HostKeyRefused(name, Phase.HOST_KEY, "not known")
        if name == "for good" or tries[name] < 3:
            raise HostFailure(name, Phase.BANNER, "closed", passing=True)
        return tries[name]

    outcomes = fan_out(named(*tries), task, limits=QUICK)
    assert tries == {"throttled": 3, "for good": QUICK.tries, "stranger": 1}
    assert [type(outcome) for outcome in outcomes.values()] == [Ok, Err, Err]
    assert [outcome.tries for outcome in outcomes.values()] == [3, QUICK.tries, 1]


@pytest.mark.parametrize("error", [UsageProblem("no"), ZeroDivisionError("division by zero")])
def test_one_hosts_surprise_is_named_and_harms_no_other(error):
    def task(name: str) -> str:
        if name == "bad":
            raise error
        return name

    outcomes = fan_out(named("bad", "good"), task)
    assert isinstance(outcomes["good"], Ok)
    bad = outcomes["bad"]
    assert isinstance(bad, Err)
    assert bad.error is error or "bad: unexpected ZeroDivisionError: division by zero" in str(bad.error)


@pytest.mark.parametrize(("lanes", "most"), [(False, 4), (True, 2)])
def test_no_more_run_at_a_time_than_are_allowed_in_all_and_behind_one_bastion(lanes, most):
    lock, full = threading.Lock(), threading.Event()
    running = 0
    seen: list[int] = []

    def task(_name: str) -> None:
        nonlocal running
        with lock:
            running += 1
            seen.append(running)
            if running == most:
                full.set()
        full.wait(5)
        with lock:
            running -= 1

    hosts = named(*(f"h{number}" for number in range(12)))
    fan_out(hosts, task, limits=Limits(parallel=4, per_lane=2), lane=lambda _name: "bastion" if lanes else None)
    assert max(seen) == most


def test_waits_grow_to_a_limit_and_are_spread():
    limits = Limits(first_wait_s=0.2, longest_wait_s=1.0)
    assert [wait_before(attempt, limits, 0.0) for attempt in (2, 3, 4, 5, 9)] == [0.1, 0.2, 0.4, 0.5, 0.5]
    assert wait_before(2, limits, 0.5) == pytest.approx(0.15)
