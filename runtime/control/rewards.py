"""What the episodes say: the mean of the newest hundred, the best it has been, and the curve so far. Pure."""

from __future__ import annotations

from collections import deque

from runtime.contract.model import View

WINDOW = 100  #: episodes of the mean
HISTORY_POINTS = 240


class RewardRecord(View):
    """What a restarted coordinator or a resumed run goes on from."""

    returns: tuple[float, ...] = ()
    best: float | None = None
    history: tuple[tuple[float, float], ...] = ()
    spacing_s: float = 0.5


class Rewards:
    """Folds episode returns in the order in which they are reported."""

    def __init__(self, record: RewardRecord | None = None) -> None:
        record = record or RewardRecord()
        self._returns: deque[float] = deque(record.returns, maxlen=WINDOW)
        self._best = record.best
        self._history = list(record.history)
        self._spacing_s = record.spacing_s

    @property
    def mean(self) -> float | None:
        """Mean return of the newest episodes, at most 100; none before the first."""
        return sum(self._returns) / len(self._returns) if self._returns else None

    @property
    def mean_100(self) -> float | None:
        """Mean return of the newest 100 episodes; none before 100 have ended."""
        return self.mean if len(self._returns) == WINDOW else None

    @property
    def best(self) -> float | None:
        """The highest `mean_100` so far."""
        return self._best

    @property
    def history(self) -> tuple[tuple[float, float], ...]:
        """(elapsed seconds, mean return) over the whole run, at most 240 points."""
        return tuple(self._history)

    def add(self, episode_return: float) -> None:
        """Count one episode."""
        self._returns.append(episode_return)
        mean = self.mean_100
        if mean is not None and (self._best is None or mean > self._best):
            self._best = mean

    def mark(self, elapsed_s: float) -> None:
        """Add a point to the curve if it is time for one; when the curve is full every second point is dropped."""
        mean = self.mean
        if mean is None or (self._history and elapsed_s - self._history[-1][0] < self._spacing_s):
            return
        self._history.append((round(elapsed_s, 3), round(mean, 4)))
        if len(self._history) > HISTORY_POINTS:
            self._history = self._history[::2]
            self._spacing_s *= 2

    def record(self) -> RewardRecord:
        return RewardRecord(
            returns=tuple(self._returns), best=self._best, history=self.history, spacing_s=self._spacing_s
        )
