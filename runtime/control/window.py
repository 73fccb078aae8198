"""A histogram that only grows, and what was added to it over a short window. Pure."""

from __future__ import annotations

from collections import deque

Histogram = tuple[int, ...]


class Window:
    """Keeps what it was in the last `length_s` seconds, at most one per `spacing_s` and always the newest."""

    def __init__(self, length_s: float = 10.0, spacing_s: float = 0.25) -> None:
        self._length_s = length_s
        self._spacing_s = spacing_s
        self._kept: deque[tuple[float, Histogram]] = deque()

    def add(self, histogram: Histogram, now: float) -> None:
        """Remember it as of `now` (seconds, monotonic)."""
        kept = self._kept
        if len(kept) >= 2 and kept[-1][0] - kept[-2][0] < self._spacing_s:
            kept.pop()  # the newest was only provisional
        kept.append((now, histogram))
        while len(kept) > 2 and kept[1][0] <= now - self._length_s:
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
