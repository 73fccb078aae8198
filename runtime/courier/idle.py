"""How a loop that must poll stays cheap: no sleep while bytes move, longer and longer naps when they don't."""

from __future__ import annotations

SPIN_S = 200e-6  #: after the last movement, look again at once for this long
LONGEST_S = 5e-3  #: nap of a courier that has been idle for a while: how late it may see a message
_SHARE = 4.0  # a nap is this fraction of the quiet time so far


class BackOff:
    """Decides the next nap from what the last look found. Seconds; the clock is the caller's."""

    def __init__(self, now: float) -> None:
        self._moved = now

    def nap(self, *, moved: bool, now: float) -> float:
        """How long to sleep now; 0.0 to look again at once."""
        if moved:
            self._moved = now
        quiet = now - self._moved
        return 0.0 if quiet < SPIN_S else min(LONGEST_S, quiet / _SHARE)
