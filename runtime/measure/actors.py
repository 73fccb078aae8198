"""An actor as a run has it, whose fragments are taken at once: how fast it is, and what a step costs of a core."""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from runtime import wiring as names
from runtime.contract.measurement import ActorRate
from runtime.measure import plans
from runtime.measure.clocking import spread, windows
from runtime.measure.groups import Group
from runtime.measure.hands import UNWRITTEN, drain, ring_end
from runtime.measure.stage import MeasureError, Stage
from runtime.memory.ring import SLOT_HEADER_BYTES, Consumer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.contract.measurement import MeasureRequest
    from runtime.contract.plan import Sizes

_MEASURED = plans.actor(0)
_FIRST_STEP_WITHIN_S = 60.0
_MOST_S = 3.0  #: for one actor whose steps are slow
_MOST_CROWD = 127  #: more actors than that disturb each other no further


class _Look(NamedTuple):
    at: float
    stolen: float
    steps: float
    cpu_s: float


def _own_s(begin: _Look, end: _Look) -> float:
    """Seconds that were its own: what others took is counted with some delay, what it computed is certain."""
    return max(1e-9, end.at - begin.at - (end.stolen - begin.stolen), end.cpu_s - begin.cpu_s)


class Crowd:
    """Actors that produce as fast as they can into rings that never fill. The first of them can be measured."""

    def __init__(
        self,
        request: MeasureRequest,
        cores: Sequence[int],
        taker: Sequence[int],
        *,
        sizes: Sizes | None = None,
        policy: np.ndarray | None = None,
    ) -> None:
        """One actor on each of `cores`; who takes their fragments runs on `taker`. They act as `policy` says, without
        one as the first policy of a run does."""
        self._sizes = sizes or request.sizes
        self._strangers_count = not request.leave_out_strangers
        plan = plans.small_plan(
            request,
            learner=request.cores,
            buffer=request.cores,
            actors=[(core,) for core in cores],
            sizes=sizes,
            remembers=False,
        )
        self.stage = Stage(plan, Path(request.folder))
        self.actors = [plans.actor(index) for index in range(len(cores))]
        # Its first policy is all that is needed of a learner: made here, as it computes nothing.
        self._learner = self.stage.assembly.build(plans.LEARNER, 1)
        self._learner.start()
        if policy is not None:
            self.stage.publish(policy)
        rings = [names.fragments_ring(name) for name in self.actors]
        self.stage.beside("taker", taker, lambda: drain([self._consumer(ring) for ring in rings]))
        self.stage.start(*self.actors)

    def _consumer(self, ring: str) -> Consumer:
        return ring_end(Consumer, self.stage.assembly, self.stage.resources, ring)

    def wait(self) -> None:
        """Until every actor has made a step. MeasureError where that does not come about."""
        for name in self.actors:
            if not self.stage.wait_for(partial(self._begun, name), _FIRST_STEP_WITHIN_S):
                raise MeasureError(f"{name} made no step within {_FIRST_STEP_WITHIN_S:.0f} s")

    def rate(self, seconds: float, busy_neighbours: int) -> ActorRate:
        """Of the first actor, over about so many seconds."""
        stage, name = self.stage, _MEASURED
        stage.wait_for(lambda: stage.count(name, "fragments") > 0, seconds / 2)  # the first one is slower
        pairs = windows(
            lambda: _Look(time.perf_counter(), self._stolen_s(), self._steps(name), stage.cpu_s(name)),
            lambda: self._position(name),
            window_s=seconds / 5,
            most_s=max(_MOST_S, seconds),
        )
        stage.look_after()
        moved = [(a, b) for a, b in pairs if b.steps > a.steps]
        if not moved:
            raise MeasureError(f"an actor made no step within {_MOST_S:.0f} s")
        return ActorRate(
            num_envs=self._sizes.num_envs,
            busy_neighbours=busy_neighbours,
            steps_per_s=spread((b.steps - a.steps) / _own_s(a, b) for a, b in moved),
            cpu_s_per_step=spread((b.cpu_s - a.cpu_s) / (b.steps - a.steps) for a, b in moved),
        )

    def _stolen_s(self) -> float:
        return 0.0 if self._strangers_count else self.stage.stolen_s(_MEASURED)

    def _begun(self, name: str) -> bool:
        return self._position(name) > 0

    def _position(self, name: str) -> int:
        """Vector steps made so far, those of a fragment that is not full included."""
        spec = self.stage.assembly.wiring.rings[names.fragments_ring(name)]
        segment = self.stage.resources.segment(spec.name)
        while True:
            full = self.stage.ledger(name).committed
            version = spec.layout.views(segment.memory, spec.slot_at(full) + SLOT_HEADER_BYTES)["version"]
            begun = int(np.count_nonzero(version != UNWRITTEN))
            if self.stage.ledger(name).committed == full:
                return full * self._sizes.rollout + min(begun, self._sizes.rollout - 1)

    def _steps(self, name: str) -> float:
        """Steps of single environments so far; of a fragment that is not full by the share of valid cells so far."""
        position = self._position(name)
        ledger = self.stage.ledger(name)
        full = ledger.committed * self._sizes.fragment_samples
        valid = ledger.produced / full if full else 1.0
        return position * self._sizes.num_envs * valid

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self.stage.close()
        self._learner.stop()


def alone(request: MeasureRequest, seconds: float, sizes: Sizes | None = None) -> ActorRate:
    """One actor on the last core, and nobody else at work."""
    with Crowd(request, request.cores[-1:], _taker(request), sizes=sizes) as crowd:
        crowd.wait()
        return crowd.rate(seconds, 0)


def among_others(
    request: MeasureRequest, seconds: float, sizes: Sizes | None = None, policy: np.ndarray | None = None
) -> ActorRate:
    """One actor on the last core, a learner at work on the first, actors on all that are between.

    How long episodes are depends on the policy, and a step at which one ends costs more: a policy that has learnt for
    some seconds is nearer to what a run has for most of its time.
    """
    with (
        Crowd(request, request.cores[-1:], _taker(request), sizes=sizes, policy=policy) as crowd,
        busy(request, request.cores[:-1]),
    ):
        crowd.wait()
        return crowd.rate(seconds, len(request.cores) - 1)


@contextmanager
def busy(request: MeasureRequest, cores: Sequence[int]) -> Iterator[None]:
    """Keep cores as busy as a run would: a group that trains on the first, and an actor on each of the others."""
    with Group.on_one_core(request, cores[0]) as group, crowd_on(request, cores[1:], cores):
        group.wait()
        yield


@contextmanager
def crowd_on(request: MeasureRequest, cores: Sequence[int], taker: Sequence[int]) -> Iterator[None]:
    """An actor at work on each of `cores`, of which there may be none."""
    if not cores:
        yield
        return
    with Crowd(request, cores[:_MOST_CROWD], taker) as crowd:
        crowd.wait()
        yield


def _taker(request: MeasureRequest) -> tuple[int, ...]:
    return request.cores[:-1] or request.cores
