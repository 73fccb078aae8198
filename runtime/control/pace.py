"""How fast a number grows that may grow in leaps, as samples trained on do by a whole batch at a time. Pure.

Over a window of fixed length the rate of such a number jumps: of leaps 4 s apart, 10 s hold two or three. So time is
taken from leap to leap, and further back where leaps are rare.
"""

from __future__ import annotations

from collections import deque

LENGTH_S = 10.0
LONGEST_S = 30.0  #: back to where rare leaps are looked for
_LEAPS = 5
_SPACING_S = 0.25  #: between leaps that are remembered
_PATIENCE = 2.0  #: usual times between leaps, until one that does not come makes the rate fall


class Pace:
    """Growth per second of one number, over the last `LENGTH_S`, or further back to `_LEAPS` leaps."""

    def __init__(self) -> None:
        self._leaps: deque[tuple[float, int]] = deque()  #: (when, all growth until then)
        self._count = 0
        self._now = 0.0

    def add(self, count: int, now: float) -> None:
        """The number is `count` at `now` (seconds, monotonic). One that falls is counted anew from there."""
        leaps = self._leaps
        again = count > self._count and len(leaps) >= 2 and now - leaps[-1][0] > self._standstill_s
        if not leaps or again:
            leaps.clear()
            leaps.append((now, 0))
        elif count > self._count:
            grown = leaps[-1][1] + count - self._count
            if len(leaps) >= 2 and leaps[-1][0] - leaps[-2][0] < _SPACING_S:
                leaps.pop()  # the newest was only provisional
            leaps.append((now, grown))
        self._count, self._now = count, now
        while len(leaps) > 2 and leaps[1][0] <= now - (LENGTH_S if len(leaps) > _LEAPS else LONGEST_S):
            leaps.popleft()

    @property
    def per_s(self) -> float:
        """0 before the first leap, and at a standstill."""
        if len(self._leaps) < 2:
            return 0.0
        (began, before), (newest, after) = self._leaps[0], self._leaps[-1]
        silent = self._now - newest
        if silent > self._standstill_s:
            return 0.0
        return (after - before) / (newest + max(0.0, silent - _PATIENCE * self._usual_s) - began)

    @property
    def _usual_s(self) -> float:
        """Between two of the leaps, of which there are two or more."""
        return (self._leaps[-1][0] - self._leaps[0][0]) / (len(self._leaps) - 1)

    @property
    def _standstill_s(self) -> float:
        """A silence that is longer than the window, and than what is usual."""
        return max(LENGTH_S, 2.0 * _PATIENCE * self._usual_s)
