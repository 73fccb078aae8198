"""A learner and its buffer as a run has them, in processes of their own, fed so that the learner never starves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from runtime import wiring as names
from runtime.contract.measurement import LearnerRate, Spread
from runtime.control.throttling import Throttling
from runtime.measure import plans
from runtime.measure.clocking import spread, windows
from runtime.measure.hands import feed, ring_end
from runtime.measure.stage import MeasureError, Stage
from runtime.memory.ring import Producer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from runtime.contract.measurement import MeasureRequest

_TRAINS_WITHIN_S = 60.0
_WARM_S = 0.3
_WARM_UPDATES = 3
_SLOW_S = 6.0  #: for a learner whose updates are slow
_FULL = 0.93  #: of the time of the cores that feed: more, and they are what holds the learner back
_IDLE = 0.75  #: of its own time a learner works at least; with less it waits for more than wake-ups


class GroupRates(NamedTuple):
    """What one trial gives. Seconds per fragment are of the buffer."""

    learner: LearnerRate
    buffer_cpu_s: Spread
    receive_s: float  #: as the buffer reports it: wall time
    starved: bool  #: those who fed it had no more to give
    policy: np.ndarray | None  #: what it has learnt meanwhile; none where it was fed with what nobody played
    strangers: float  #: share of the time in which others had the learner's core


class _Look(NamedTuple):
    at: float
    stolen: float  #: seconds so far in which the learner had to wait for its core
    throttled: float  #: seconds so far in which quotas stopped everything here
    samples: int
    fragments: int
    learner_s: float
    buffer_s: float
    feeding_s: float


class Group:
    """A learner on cores of its own, the buffer with those who feed it on `others`."""

    def __init__(
        self,
        request: MeasureRequest,
        learner: Sequence[int],
        others: Sequence[int],
        *,
        actors: int,
        remembers: bool = True,
    ) -> None:
        """`actors` feed it, each with a core of its own; with 0 fragments are made up, as many as there is room for."""
        pins: list[tuple[int, ...]] = [(others[index % len(others)],) for index in range(actors)]
        self._throttling = Throttling()
        self._cores = len(learner)
        self._strangers_count = not request.leave_out_strangers
        self._fed_by = [plans.actor(index) for index in range(actors)]
        self._feeding_cores = min(actors, len(others))
        plan = plans.small_plan(
            request,
            learner=tuple(learner),
            buffer=tuple(others),
            actors=pins or [tuple(others)],
            threads=len(learner),
            remembers=remembers,
        )
        self.stage = stage = Stage(plan, Path(request.folder))
        stage.start(plans.LEARNER, plans.BUFFER, *self._fed_by)
        if not actors:
            number = request.env.num_actions
            stage.beside("feeder", others, lambda: feed(self._producer(), self._version, number))

    @classmethod
    def on_one_core(cls, request: MeasureRequest, core: int) -> Group:
        """All of it on one core, to keep that busy."""
        return cls(request, (core,), (core,), actors=0, remembers=False)

    def _producer(self) -> Producer:
        ring = names.fragments_ring(plans.actor(0))
        return ring_end(Producer, self.stage.assembly, self.stage.resources, ring)

    def _version(self) -> int:
        return self.stage.count(plans.LEARNER, "version")

    def wait(self) -> None:
        """Until it trains. MeasureError where that does not come about."""
        if not self.stage.wait_for(lambda: self._updates() >= _WARM_UPDATES, _TRAINS_WITHIN_S) and not self._updates():
            raise MeasureError(f"no update was made within {_TRAINS_WITHIN_S:.0f} s")

    def _updates(self) -> int:
        return self.stage.count(plans.LEARNER, "updates")

    def rates(self, seconds: float) -> GroupRates:
        """Over about so many seconds once warm."""
        self.wait()
        self.stage.wait_for(lambda: False, _WARM_S)
        pairs = windows(self._look, self._updates, window_s=seconds / 5, most_s=max(_SLOW_S, seconds))
        self.stage.look_after()
        moved = [(a, b) for a, b in pairs if b.samples > a.samples]
        if not moved:
            raise MeasureError(f"no update was made within {_SLOW_S:.0f} s")
        first, last = pairs[0][0], pairs[-1][1]
        fed_s = (last.feeding_s - first.feeding_s + last.buffer_s - first.buffer_s) / (last.at - first.at)
        own_s = max(1e-9, last.at - first.at - (last.stolen - first.stolen))
        worked_s = (last.learner_s - first.learner_s) / own_s
        return GroupRates(
            learner=LearnerRate(
                cores=self._cores,
                samples_per_s=spread((b.samples - a.samples) / self._took(a, b) for a, b in moved),
                cpu_s_per_sample=spread((b.learner_s - a.learner_s) / (b.samples - a.samples) for a, b in moved),
            ),
            buffer_cpu_s=_per_fragment(pairs),
            receive_s=float(self.stage.assembly.block(plans.BUFFER).get("t_rv_s")),
            policy=self.stage.policy() if self._fed_by else None,
            strangers=_taken_by_others(first, last),
            starved=bool(self._fed_by) and (fed_s > _FULL * self._feeding_cores or worked_s < _IDLE),
        )

    def _took(self, begin: _Look, end: _Look) -> float:
        stolen = 0.0 if self._strangers_count else end.stolen - begin.stolen
        return max(1e-9, end.at - begin.at - stolen)

    def _look(self) -> _Look:
        stage = self.stage
        return _Look(
            at=time.perf_counter(),
            stolen=stage.stolen_s(plans.LEARNER),
            throttled=self._throttling.stopped_s(),
            samples=stage.count(plans.LEARNER, "samples_trained"),
            fragments=sum(stage.ledger(actor).released for actor in self._fed_by or [plans.actor(0)]),
            learner_s=stage.cpu_s(plans.LEARNER),
            buffer_s=stage.cpu_s(plans.BUFFER),
            feeding_s=stage.cpu_s(*self._fed_by),
        )

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.stage.close()


def _taken_by_others(first: _Look, last: _Look) -> float:
    """Share of the time; what is stolen is an estimate that may go back, and a quota's part of it is nobody's fault."""
    return max(0.0, last.stolen - first.stolen - (last.throttled - first.throttled)) / (last.at - first.at)


def _per_fragment(pairs: Sequence[tuple[_Look, _Look]]) -> Spread:
    """Core seconds of the buffer by fragment; over all windows at once where some saw none."""
    each = [(b.buffer_s - a.buffer_s) / (b.fragments - a.fragments) for a, b in pairs if b.fragments > a.fragments]
    if len(each) == len(pairs):
        return spread(each)
    first, last = pairs[0][0], pairs[-1][1]
    return spread([(last.buffer_s - first.buffer_s) / max(1, last.fragments - first.fragments)])
