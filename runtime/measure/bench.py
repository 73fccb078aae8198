"""One group of the job in this process: the real components over private memory, fed or drained by hand.

What is timed is the code that a run executes, ring and board included; only waiting for each other is left out.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from runtime import wiring as names
from runtime.assembly import Assembly
from runtime.components.base import Progress
from runtime.contract.job import StopConfig
from runtime.contract.paths import RunPaths
from runtime.contract.plan import Fingerprints, HostPlan, Placement, Plan
from runtime.contract.states import Dependencies, Role
from runtime.memory.ring import Consumer, Producer
from runtime.resources import Resources

if TYPE_CHECKING:
    from runtime.components.base import Component
    from runtime.contract.measurement import MeasureRequest
    from runtime.memory.ring import Slot

_End = TypeVar("_End", Producer, Consumer)
_ACTOR, _BUFFER, _LEARNER = "actor-0", "buffer-0", "learner-0"
_ENDS = 0.02  #: share of made-up steps that end an episode


class Bench:
    """Measures one actor, or one buffer with its learner, in whatever cores the process is bound to."""

    def __init__(self, request: MeasureRequest) -> None:
        self._request = request
        plan = _plan(request)
        self._resources = Resources.create(names.wire(plan, plan.head), shared=False)
        self._assembly = Assembly(
            plan, plan.head, self._resources, RunPaths(Path(request.folder)), run_attempt=1, resume_from=None
        )
        self._ring = names.fragments_ring(_ACTOR)
        self._learner = self._start(_LEARNER)  # publishes a first policy, without which an actor does nothing
        self._buffer: Component | None = None
        self._actor: Component | None = None
        self._rng = np.random.default_rng(request.job.training.seed)

    def _start(self, name: str) -> Component:
        component = self._assembly.build(name, 1)
        component.start()
        return component

    def actor_steps_per_s(self) -> float:
        """Steps per second over the next fragment."""
        if self._actor is None:
            self._actor = self._start(_ACTOR)
            self._drain = self._end(Consumer)
        began = time.perf_counter()
        while (slot := self._drain.peek()) is None:
            self._actor.tick()
        took = time.perf_counter() - began
        samples = slot.samples
        self._drain.release(consumed=samples)
        return samples / took

    def batch_costs(self) -> tuple[float, float]:
        """(samples per second of the learner, buffer's seconds per fragment) over at least one update."""
        if self._buffer is None:
            self._buffer = self._start(_BUFFER)
            self._feed = self._end(Producer)
        trained = self._assembly.block(_LEARNER)
        before = int(trained.get("samples_trained"))
        learner_s = buffer_s = 0.0
        fragments = 0
        while int(trained.get("samples_trained")) == before or fragments == 0:
            if (slot := self._feed.acquire()) is not None:
                self._make_up(slot)
                self._feed.commit(slot.fields["valid"].size)
                fragments += 1
            while True:
                took, worked = _timed(self._buffer)
                buffer_s += took
                spent, trains = _timed(self._learner)
                learner_s += spent
                if not worked and not trains:
                    break
        samples = int(trained.get("samples_trained")) - before
        return samples / learner_s, buffer_s / fragments

    def _end(self, kind: type[_End]) -> _End:
        """One end of the fragment ring."""
        return kind(
            self._resources.segment(self._ring),
            self._assembly.wiring.rings[self._ring],
            data_ready=self._resources.event(f"{self._ring}:data"),
            space_ready=self._resources.event(f"{self._ring}:space"),
        )

    def _make_up(self, slot: Slot) -> None:
        """Fill a fragment with plausible numbers; costs of buffer and learner do not depend on what they mean."""
        fields, rng = slot.fields, self._rng
        for name in ("obs", "next_obs"):
            fields[name][...] = rng.standard_normal(fields[name].shape, np.float32)
        actions = self._request.env.num_actions
        fields["action"][...] = rng.integers(0, actions, fields["action"].shape)
        fields["reward"][...] = 1.0
        fields["terminated"][...] = rng.random(fields["terminated"].shape) < _ENDS
        fields["truncated"][...] = False
        fields["valid"][...] = True
        fields["version"][...] = int(self._assembly.block(_LEARNER).get("version"))
        if "logp" in fields:
            fields["logp"][...] = -np.log(actions)

    def close(self) -> None:
        for component in (self._actor, self._buffer, self._learner):
            if component is not None:
                component.stop()


def _timed(component: Component) -> tuple[float, bool]:
    """Seconds of one tick and whether it worked; a tick that found nothing to do costs nothing."""
    began = time.perf_counter()
    worked = component.tick() is Progress.WORKED
    return (time.perf_counter() - began if worked else 0.0), worked


def _plan(request: MeasureRequest) -> Plan:
    """The smallest plan of the job: one group with one actor, everything relaxed, and no rule by which it ends."""
    training = request.job.training.model_copy(update={"dependencies": Dependencies.RELAXED, "stop": StopConfig()})
    roles = ((Role.LEARNER, _LEARNER), (Role.BUFFER, _BUFFER), (Role.ACTOR, _ACTOR))
    return Plan(
        shape="L1A1",
        job=request.job.model_copy(update={"training": training}),
        env=request.env,
        sizes=request.sizes,
        hosts=(HostPlan(name="localhost", cores=request.cores),),
        placements=tuple(
            Placement(name=name, role=role, index=0, group=0, host="localhost", cores=request.cores, core_share=1.0)
            for role, name in roles
        ),
        fingerprints=Fingerprints(job="", inventory=""),
        solver="measurement",
    )
