"""Values that change with the run's env steps, so that they go on where they were after a resume."""

from __future__ import annotations


def linear(start: float, end: float, steps: int | None, at: int) -> float:
    """From `start` to `end` in a straight line over `steps`, then `end`; always `start` where `steps` is none."""
    if steps is None:
        return start
    share = min(max(at / steps, 0.0), 1.0)
    return start + (end - start) * share
