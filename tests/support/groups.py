"""One learner's group over the memory of this process, with the test in the place of the actors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from runtime.assembly import Assembly
from runtime.contract.paths import RunPaths
from runtime.contract.plan import Plan
from runtime.memory.ring import Ledger, Producer, read_ledger
from runtime.resources import Resources
from runtime.wiring import Wiring, fragments_ring, wire
from support.plans import make_job, make_plan


class Group:
    """Memory and wiring of a plan; components are built from it as often as the test likes (each is a new life)."""

    def __init__(self, folder: Path, learn: str = "ppo", shape: str = "L1A1", **parts: Any) -> None:
        self.plan: Plan = make_plan(make_job(learn, **parts), shape)
        self.paths = RunPaths(folder / "run")
        self.paths.root.mkdir(exist_ok=True)
        self.wiring: Wiring = wire(self.plan, self.plan.head)
        self.resources = Resources.create(self.wiring, shared=False)
        self.lives = 0

    def assembly(self, resume_from: Path | None = None) -> Assembly:
        return Assembly(self.plan, self.plan.head, self.resources, self.paths, run_attempt=1, resume_from=resume_from)

    def build(self, name: str) -> Any:
        """A fresh life of a component over the same memory."""
        self.lives += 1
        return self.assembly().build(name, self.lives)

    def block(self, name: str) -> Any:
        return self.assembly().block(name)

    def actor_end(self, actor: str = "actor-0") -> Producer:
        ring = fragments_ring(actor)
        return Producer(
            self.resources.segment(ring),
            self.wiring.rings[ring],
            data_ready=self.resources.event(f"{ring}:data"),
            space_ready=self.resources.event(f"{ring}:space"),
        )

    def ledger(self, ring: str) -> Ledger:
        return read_ledger(self.resources.segment(ring), self.wiring.rings[ring])


def put_fragment(producer: Producer, *, version: int = 0, reward: float = 1.0, mark: float = 0.0) -> int:
    """A whole, valid fragment; `mark` fills its observations. Returns the samples in it."""
    slot = producer.acquire()
    assert slot is not None, "the ring is full"
    fields = slot.fields
    for name in ("terminated", "truncated"):
        fields[name][:] = False
    fields["valid"][:] = True
    fields["obs"][:] = mark
    fields["next_obs"][:] = mark
    fields["action"][:] = 0
    fields["reward"][:] = reward
    fields["version"][:] = version
    if "logp" in fields:
        fields["logp"][:] = np.log(0.5)
    samples = int(fields["valid"].size)
    producer.commit(samples)
    return samples
