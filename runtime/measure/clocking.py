"""How something is timed: warm first, then several windows, of which the median and the extremes are kept."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TypeVar

from runtime.contract.measurement import Spread

WINDOWS = 5
_LOOK_EVERY_S = 0.002
_Look = TypeVar("_Look")


def spread(values: Iterable[float]) -> Spread:
    """Median, smallest and largest of at least one value."""
    known = sorted(values)
    return Spread(median=statistics.median(known), low=known[0], high=known[-1], repeats=len(known))


def repeated(work: Callable[[], float], seconds: float, *, windows: int = WINDOWS) -> Spread:
    """Call `work` once unmeasured, then until `seconds` have passed and at least twice; spread of what it returns.

    A call that is slow enough to fill the time on its own is not made again: its first answer counts.
    """
    began = time.perf_counter()
    first = work()
    if time.perf_counter() - began > 2 * seconds:
        return spread([first])
    values: list[float] = []
    began = time.perf_counter()
    while len(values) < 2 or (time.perf_counter() - began < seconds and len(values) < 100 * windows):
        values.append(work())
    return spread(values)


def windows(
    look: Callable[[], _Look], position: Callable[[], int], *, window_s: float, most_s: float, count: int = WINDOWS
) -> list[tuple[_Look, _Look]]:
    """What `look` says at the beginning and at the end of up to `count` windows, one after the other.

    Each ends where `position` has just moved on, so that slow work is counted in whole pieces. No window begins later
    than `most_s` after the first, and a standstill of so long ends the last one as it is. At least one is given.
    """
    deadline = time.monotonic() + most_s
    _await_move(position, deadline)
    looks = [look()]
    while len(looks) < 2 or (len(looks) <= count and time.monotonic() < deadline):
        time.sleep(window_s)
        _await_move(position, deadline)
        looks.append(look())
    return list(pairwise(looks))


def _await_move(position: Callable[[], int], deadline: float) -> None:
    before = position()
    while position() == before and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)


def pin(cores: Iterable[int]) -> None:
    """Bind this process to those of `cores` that it may use; to none of them means: leave it as it is."""
    allowed = set(cores) & os.sched_getaffinity(0)
    if allowed:
        os.sched_setaffinity(0, allowed)
