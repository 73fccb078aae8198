"""How fast a run goes, though each component counts in leaps: fragments and batches at a time. Pure.

Over a window of fixed length such a rate jumps: of leaps 4 s apart, 10 s hold two or three. So time is taken from leap
to leap, and further back where leaps are rare. Each component has a pace of its own, and the run has their sum: several
whose leaps come close together, and then none for long, have no common pace that could be seen in a few of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from runtime.contract.states import ComponentState, Role
from runtime.control.window import LENGTH_S, remember

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from runtime.contract.messages import ComponentReport

LONGEST_S = 30.0  #: back to where rare leaps are looked for
_LEAPS = 5
_PATIENCE = 2.0  #: usual times between leaps, until one that does not come makes the rate fall
_COUNTED = {Role.ACTOR: ("env_steps",), Role.LEARNER: ("updates", "samples_trained")}


class Pace:
    """Growth per second of one number, over the last `LENGTH_S`, or further back to `_LEAPS` leaps."""

    def __init__(self, count: int, now: float) -> None:
        """It is `count` at `now` (seconds, monotonic)."""
        self._leaps: deque[tuple[float, int]] = deque([(now, 0)])  # (when, all growth until then)
        self._count = count

    def rebase(self, count: int) -> None:
        """It goes on from another count: what lies between was not made in the meantime."""
        self._count = count

    def add(self, count: int, now: float) -> None:
        """What it is at `now`. Where it has fallen it goes on from there."""
        leaps = self._leaps
        if count > self._count:
            if len(leaps) >= 2 and now - leaps[-1][0] > self._standstill_s:
                leaps.clear()
            remember(leaps, leaps[-1][1] + count - self._count if leaps else 0, now)
        self._count = count
        while len(leaps) > 2 and leaps[1][0] <= now - (LENGTH_S if len(leaps) > _LEAPS else LONGEST_S):
            leaps.popleft()

    def per_s(self, now: float) -> float:
        """0 before the first leap, and at a standstill."""
        if len(self._leaps) < 2:
            return 0.0
        (began, before), (newest, after) = self._leaps[0], self._leaps[-1]
        silent = now - newest
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


class Paces:
    """Those of all actors and learners of a run."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, Pace]] = {each: {} for counted in _COUNTED.values() for each in counted}
        self._attempts: dict[str, int] = {}

    def take(self, reports: Iterable[ComponentReport], now: float) -> None:
        """What components of one node have counted by `now`. One that is started anew goes on from where it is then:
        a learner's counters jump to those of its shard."""
        for report in reports:
            if report.state is not ComponentState.RUNNING:
                continue
            anew = self._attempts.get(report.name) != report.attempt
            self._attempts[report.name] = report.attempt
            for counter in _COUNTED.get(report.role, ()):
                count, paces = report.counters.get(counter, 0), self._of[counter]
                pace = paces.setdefault(report.name, Pace(count, now)) if anew else paces[report.name]
                if anew:
                    pace.rebase(count)
                pace.add(count, now)

    def keep(self, names: Set[str]) -> None:
        """Forget all others."""
        for name in self._attempts.keys() - names:
            del self._attempts[name]
            for paces in self._of.values():
                paces.pop(name, None)

    def per_s(self, counter: str, now: float) -> float:
        """How fast the sum of this counter over all components grows."""
        return sum(pace.per_s(now) for pace in self._of[counter].values())
