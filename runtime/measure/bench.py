"""One learner and its buffer in this process: the real components over private memory, fed by hand.

What is timed is the code that a run executes, ring and board included; only waiting for each other is left out. Time is
that of the core: others that have it meanwhile do not count.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from runtime import wiring as names
from runtime.assembly import Assembly
from runtime.components.base import Progress
from runtime.contract.paths import RunPaths
from runtime.measure.hands import make_up, ring_end
from runtime.measure.plans import BUFFER, LEARNER, actor, small_plan
from runtime.memory.ring import Producer
from runtime.resources import Resources

if TYPE_CHECKING:
    from runtime.components.base import Component
    from runtime.contract.measurement import MeasureRequest
    from runtime.contract.plan import Sizes


class Bench:
    """Measures a buffer and its learner, in whatever cores the process is bound to."""

    def __init__(self, request: MeasureRequest, sizes: Sizes | None = None) -> None:
        """With the sizes of the request, or others."""
        self._request = request
        cores = request.cores
        plan = small_plan(request, learner=cores, buffer=cores, actors=(cores,), sizes=sizes)
        self._resources = Resources.create(names.wire(plan, plan.head), shared=False)
        self._assembly = Assembly(
            plan, plan.head, self._resources, RunPaths(Path(request.folder)), run_attempt=1, resume_from=None
        )
        self._ring = names.fragments_ring(actor(0))
        self._learner = self._start(LEARNER)  # publishes version 0, by which fragments are dated
        self._buffer: Component | None = None
        self._rng = np.random.default_rng(request.job.training.seed)

    def _start(self, name: str) -> Component:
        component = self._assembly.build(name, 1)
        component.start()
        return component

    def batch_costs(self) -> tuple[float, float]:
        """(samples per second of the learner, buffer's seconds per fragment) over at least one update."""
        if self._buffer is None:
            self._buffer = self._start(BUFFER)
            self._feed = ring_end(Producer, self._assembly, self._resources, self._ring)
        trained = self._assembly.block(LEARNER)
        before = int(trained.get("samples_trained"))
        learner_s = buffer_s = 0.0
        fragments = 0
        while int(trained.get("samples_trained")) == before or fragments == 0:
            if (slot := self._feed.acquire()) is not None:
                make_up(slot, self._rng, self._request.env.num_actions, int(trained.get("version")))
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

    def close(self) -> None:
        for component in (self._buffer, self._learner):
            if component is not None:
                component.stop()


def _timed(component: Component) -> tuple[float, bool]:
    """Core seconds of one tick and whether it worked; a tick that found nothing to do costs nothing."""
    began = time.process_time()
    worked = component.tick() is Progress.WORKED
    return (time.process_time() - began if worked else 0.0), worked
