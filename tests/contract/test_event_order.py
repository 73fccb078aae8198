"""Events stand in the order in which they happened, as far as clocks can tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.event_order import in_order
from runtime.contract.view import Event

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def event(name: str, second: float, host: str | None = None, cause: str | None = None) -> Event:
    time = NOON + timedelta(seconds=second)
    return Event(id=name, time=time, kind="run.state", message="m", host=host, cause=cause)


def names(events: list[Event], head: str | None) -> list[str]:
    return [each.id for each in in_order(events, head)]


def test_what_the_agent_of_the_head_noticed_stands_before_what_the_coordinator_wrote_after_it() -> None:
    log = [event("died", 0), event("resumed", 4), event("restarted", 2, "tj1"), event("running", 5)]
    assert names(log, "tj1") == ["died", "restarted", "resumed", "running"]
    assert names(log, None) == ["died", "restarted", "resumed", "running"]


def test_what_happened_by_another_clock_stays_where_it_was_heard_of() -> None:
    log = [event("a", 0), event("hours behind", -7200, "tj2"), event("hours ahead", 7200, "tj2"), event("b", 1)]
    assert names(log, "tj1") == ["a", "hours behind", "hours ahead", "b"]


def test_no_event_comes_before_its_cause_though_a_clock_has_been_set_back() -> None:
    log = [event("died", 10), event("restarted", 3, cause="died"), event("later", 20)]
    assert names(log, None) == ["died", "restarted", "later"]


moments = st.tuples(st.integers(-100, 100), st.sampled_from([None, "tj1", "tj2"]), st.integers(0, 30))


@given(st.lists(moments, max_size=30))
def test_every_event_is_there_once_after_its_cause_and_times_of_the_head_grow(drawn: list[tuple[int, str | None, int]]):
    log = [
        event(f"e{number}", second, host, f"e{cause}" if cause < number else None)
        for number, (second, host, cause) in enumerate(drawn)
    ]
    order = in_order(log, "tj1")
    place = {each.id: number for number, each in enumerate(order)}
    assert sorted(place) == sorted(each.id for each in log)
    assert all(place[each.cause] < place[each.id] for each in log if each.cause is not None)
    free = [each.time for each in order if each.host != "tj2" and each.cause is None]
    assert free == sorted(free)
