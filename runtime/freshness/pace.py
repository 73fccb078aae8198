"""The balance of production and consumption for replayed data. Pure: counters in, permission out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """Hold `trained` near `samples_per_insert` × `inserted` once `learning_starts` samples are there.

    `trained` and `inserted` count samples over the whole life of the buffer; samples inserted before the start are
    not owed. `slack` is how many trained samples the two sides may be apart, so that neither waits for the other at
    each step.
    """

    samples_per_insert: float
    learning_starts: int
    slack: float

    def __post_init__(self) -> None:
        if self.samples_per_insert <= 0 or self.slack < 0 or self.learning_starts < 0:
            raise ValueError("a pace needs samples_per_insert > 0, slack ≥ 0 and learning_starts ≥ 0")

    def owed(self, *, trained: int, inserted: int) -> float:
        """Samples that training is behind; negative where it is ahead."""
        return self.samples_per_insert * (inserted - self.learning_starts) - trained

    def may_sample(self, *, trained: int, inserted: int) -> bool:
        """Whether one more batch may be drawn: training is not ahead by more than the slack."""
        return inserted >= self.learning_starts and self.owed(trained=trained, inserted=inserted) > -self.slack

    def may_insert(self, *, trained: int, inserted: int) -> bool:
        """Whether one more fragment may be taken from the actors: training is not behind by more than the slack."""
        return inserted < self.learning_starts or self.owed(trained=trained, inserted=inserted) <= self.slack
