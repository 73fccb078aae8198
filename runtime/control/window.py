"""Totals of a run, how fast they grow, and what they have grown by over a short window. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from runtime.control.pace import LENGTH_S, Pace


@dataclass(frozen=True, slots=True)
class Totals:
    """Numbers that only grow, over the whole run, at one moment; `lag_histogram` counts used samples by lag."""

    env_steps: int = 0
    updates: int = 0
    samples_trained: int = 0
    samples_produced: int = 0
    lag_histogram: tuple[int, ...] = ()


class Window:
    """Keeps totals of the last `length_s` seconds, at most one per `spacing_s` and always the newest."""

    def __init__(self, length_s: float = LENGTH_S, spacing_s: float = 0.25) -> None:
        self._length_s = length_s
        self._spacing_s = spacing_s
        self._kept: deque[tuple[float, Totals]] = deque()
        self.env_steps = Pace()
        self.updates = Pace()
        self.samples_trained = Pace()
        self.samples_produced = Pace()

    def add(self, totals: Totals, now: float) -> None:
        """Remember `totals` as of `now` (seconds, monotonic)."""
        self.env_steps.add(totals.env_steps, now)
        self.updates.add(totals.updates, now)
        self.samples_trained.add(totals.samples_trained, now)
        self.samples_produced.add(totals.samples_produced, now)
        kept = self._kept
        if len(kept) >= 2 and kept[-1][0] - kept[-2][0] < self._spacing_s:
            kept.pop()  # the newest was only provisional
        kept.append((now, totals))
        while len(kept) > 2 and kept[1][0] <= now - self._length_s:
            kept.popleft()

    @property
    def span_s(self) -> float:
        """Time between the oldest and the newest totals kept."""
        return self._kept[-1][0] - self._kept[0][0] if self._kept else 0.0

    def growth(self) -> Totals:
        """How much each total has grown over the span."""
        if not self._kept:
            return Totals()
        old, new = self._kept[0][1], self._kept[-1][1]
        before = (*old.lag_histogram, *([0] * len(new.lag_histogram)))
        return Totals(
            env_steps=new.env_steps - old.env_steps,
            updates=new.updates - old.updates,
            samples_trained=new.samples_trained - old.samples_trained,
            samples_produced=new.samples_produced - old.samples_produced,
            lag_histogram=tuple(max(0, b - a) for a, b in zip(before, new.lag_histogram, strict=False)),
        )
