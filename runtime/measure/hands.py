"""What stands in for components that are not measured: one that feeds a buffer, one that takes what actors make."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from runtime.memory.ring import Consumer, Producer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.assembly import Assembly
    from runtime.memory.ring import Slot
    from runtime.resources import Resources

_End = TypeVar("_End", Producer, Consumer)
_ENDS = 0.002  #: share of made-up steps that end an episode
_PATIENCE_MS = 100  #: a lost wake-up costs no more than that
UNWRITTEN = -1  #: version of a step that is not there yet


def ring_end(kind: type[_End], assembly: Assembly, resources: Resources, ring: str) -> _End:
    """One end of a ring."""
    return kind(
        resources.segment(ring),
        assembly.wiring.rings[ring],
        data_ready=resources.event(f"{ring}:data"),
        space_ready=resources.event(f"{ring}:space"),
    )


def make_up(slot: Slot, rng: np.random.Generator, actions: int, version: int) -> None:
    """Fill a fragment with plausible numbers; costs of buffer and learner do not depend on what they mean."""
    fields = slot.fields
    for name in ("obs", "next_obs"):
        fields[name][...] = rng.standard_normal(fields[name].shape, np.float32)
    fields["action"][...] = rng.integers(0, actions, fields["action"].shape)
    fields["reward"][...] = 1.0
    fields["terminated"][...] = rng.random(fields["terminated"].shape) < _ENDS
    fields["truncated"][...] = False
    fields["valid"][...] = True
    fields["version"][...] = version
    if "logp" in fields:
        fields["logp"][...] = -np.log(actions)


def feed(ring: Producer, learner_version: object, actions: int) -> None:
    """Never let the buffer wait: commit a fragment wherever there is room. Each place of the ring is filled once, and
    later only dated anew, so that feeding costs next to nothing."""
    version = learner_version
    assert callable(version)
    rng = np.random.default_rng(0)
    poller = select.poll()
    poller.register(ring.space_ready.fileno(), select.POLLIN)
    filled = 0
    while True:
        slot = ring.acquire()
        if slot is None:
            poller.poll(_PATIENCE_MS)
            ring.space_ready.drain()
            continue
        if filled < ring.spec.slots:
            make_up(slot, rng, actions, version())
            filled += 1
        slot.fields["version"][...] = version()
        ring.commit(slot.fields["valid"].size)


def drain(rings: Sequence[Consumer]) -> None:
    """Take whatever comes at once, and mark the place as unwritten."""
    poller = select.poll()
    by_fd = {ring.data_ready.fileno(): ring for ring in rings}
    for descriptor in by_fd:
        poller.register(descriptor, select.POLLIN)
    while True:
        for descriptor, _ in poller.poll(_PATIENCE_MS):
            ring = by_fd[descriptor]
            ring.data_ready.drain()
            while (slot := ring.peek()) is not None:
                slot.fields["version"][...] = UNWRITTEN
                ring.release(consumed=slot.samples)
