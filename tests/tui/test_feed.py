"""The thread that reads: what it asks for, when, and what becomes of trouble."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from support.pictures import live, small_view
from tianjictl.runs.client import Picture
from tianjictl.tui.feed import Feed
from tianjictl.tui.scene import Extra

WITHIN_S = 20.0
Looks = queue.Queue[tuple[Picture, Extra]]


@pytest.fixture
def looks() -> Looks:
    return queue.Queue()


@pytest.fixture
def failures() -> queue.Queue[Exception]:
    return queue.Queue()


@pytest.fixture
def feed(source, looks, failures) -> Iterator[Feed]:
    made = Feed(source, lambda picture, extra: looks.put((picture, extra)), failures.put, period_s=0.01)
    yield made
    made.close()


def until(looks: Looks, met: Callable[[Extra], bool]) -> Extra:
    """The first look that meets the condition."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        _picture, extra = looks.get(timeout=max(0.1, deadline - time.monotonic()))
        if met(extra):
            return extra


def test_only_what_the_view_needs_is_read(feed, source, looks):
    feed.start()
    assert until(looks, lambda _extra: True) == Extra()
    source.lines = {"actor-1": ["one", "two"]}
    feed.turn_to("logs", "actor-1")
    assert until(looks, lambda extra: extra.log is not None).log == ("one", "two")
    feed.turn_to("checkpoints", "actor-1")
    found = until(looks, lambda extra: extra.checkpoints is not None)
    assert found.checkpoints is not None
    assert [item.step for item in found.checkpoints] == [12_000_000, 11_000_000, 10_000_000]
    assert found.events is None
    feed.turn_to("events", "actor-1")
    assert until(looks, lambda extra: extra.events is not None).events == source.shown.view.events


def test_what_cannot_be_read_is_told_and_looking_goes_on(feed, looks):
    feed.start()
    feed.turn_to("plan", "")
    assert "cannot be read" in until(looks, lambda extra: bool(extra.problem)).problem
    feed.turn_to("checkpoints", "")
    assert until(looks, lambda extra: extra.checkpoints is not None).problem == ""


def test_while_paused_the_picture_stands_and_views_are_still_read(feed, source, looks):
    feed.start()
    until(looks, lambda _extra: True)
    feed.pause(True)
    feed.turn_to("logs", "learner-0")
    until(looks, lambda extra: extra.log is not None)
    before = source.looks
    source.shown = live(small_view(elapsed_s=999.0))
    feed.turn_to("checkpoints", "learner-0")
    until(looks, lambda extra: extra.checkpoints is not None)
    assert source.looks == before
    feed.pause(False)
    picture, _extra = looks.get(timeout=WITHIN_S)
    assert picture.view.elapsed_s == 999.0


def test_a_fault_of_its_own_is_handed_over_and_not_swallowed(feed, source, failures):
    source.picture = lambda: 1 / 0
    feed.start()
    assert isinstance(failures.get(timeout=WITHIN_S), ZeroDivisionError)


def test_closing_does_not_wait_for_a_host(feed, source):
    asked, release = threading.Event(), threading.Event()

    def picture() -> Picture:
        asked.set()
        release.wait(WITHIN_S)
        return source.shown

    source.picture = picture
    feed.start()
    assert asked.wait(WITHIN_S)
    began = time.monotonic()
    feed.close()
    assert time.monotonic() - began < 1.0
    release.set()
