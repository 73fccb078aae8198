"""A histogram that only grows, and what was added to it over a short window. Pure."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

LENGTH_S = 10.0
_SPACING_S = 0.25

Histogram = tuple[int, ...]
Value = TypeVar("Value")


def remember(kept: deque[tuple[float, Value]], value: Value, now: float) -> None:
    """Add it as of `now`: of what comes closer together than `_SPACING_S` only the newest is kept."""
    if len(kept) >= 2 and kept[-1][0] - kept[-2][0] < _SPACING_S:
        kept.pop()  # the newest was only provisional
    kept.append((now, value))


class Window:
    """Keeps what it was in the last `LENGTH_S` seconds."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, Histogram]] = deque()

    def add(self, histogram: Histogram, now: float) -> None:
        """Remember it as of `now` (seconds, monotonic)."""
        kept = self._kept
        remember(kept, histogram, now)
        while len(kept) > 2 and kept[1][0] <= now - LENGTH_S:
            kept.popleft()

    @property
    def span_s(self) -> float:
        """Time between the oldest and the newest kept."""
        return self._kept[-1][0] - self._kept[0][0] if self._kept else 0.0

    def growth(self) -> Histogram:
        """What was added over the span, bin by bin."""
        if not self._kept:
            return ()
        old, new = self._kept[0][1], self._kept[-1][1]
        before = (*old, *([0] * len(new)))
        return tuple(max(0, b - a) for a, b in zip(before, new, strict=False))
