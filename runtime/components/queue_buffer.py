"""The buffer for on-policy algorithms: a bounded queue that turns fragments into batches, each used once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from runtime.checkpoint.shard import save_shard
from runtime.components.base import Progress
from runtime.components.saving import save_and_mark
from runtime.contract.states import Dependencies

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from runtime.components.ports import BufferPorts
    from runtime.memory.ring import Consumer, Slot

_PER_CELL = ("obs", "next_obs", "action", "reward", "terminated", "truncated", "valid", "logp")
_NO_SOURCE = (-1, -1)
QUIET_S = 0.5  #: a buffer that drains believes after so long that nothing more comes


class QueueBuffer:
    """Joins F fragments along the environment axis into one batch.

    A fragment is released only after the batch that holds it is committed, and every batch names its sources, so a
    buffer that is killed between the two neither loses a fragment nor sends one twice. Where its actors leave, the last
    batch may have parts without a valid cell.
    """

    def __init__(self, name: str, ports: BufferPorts, *, fragments_per_batch: int, max_lag: int) -> None:
        self.name = name
        self._ports = ports
        self._count = fragments_per_batch
        self._max_lag = max_lag
        self._next_ring = 0
        self._chosen: list[tuple[int, Slot]] = []
        self._peeked = [0] * len(ports.rings)
        self._arrived = 0
        self._arrived_at = 0.0

    def start(self) -> None:
        """Finish what a predecessor left half done: release the fragments of its last committed batch."""
        self._ports.finish_marker()
        last = self._ports.batches.last
        if last is not None and last.samples > 0:
            for actor, consumer in zip(self._ports.actors, self._ports.rings, strict=True):
                _release_sent(consumer, actor, last.fields["source"])

    def tick(self) -> Progress:
        ports = self._ports
        if ports.control.checkpoint_request > ports.block.checkpoint_done:
            return save_and_mark(self, ports, ports.control.checkpoint_request, self._write_tidings)
        if ports.dependencies is Dependencies.POLICY_ONLY and ports.batches.unreleased > 0:
            return Progress.IDLE  # the learner is busy: what it trains on next must be made meanwhile
        if not self._choose() and not self._is_all():
            return Progress.IDLE
        batch = ports.batches.acquire()
        if batch is None:
            return Progress.IDLE
        self._fill(batch)
        return Progress.WORKED

    def _drop_stale(self) -> None:
        """What is too old; where the learner wants only the newest, also what is more than one batch."""
        rings = self._ports.rings
        if self._ports.dependencies is Dependencies.POLICY_ONLY:
            while sum(consumer.available for consumer in rings) > self._count:
                self._drop(max(rings, key=lambda consumer: consumer.available))
        version = self._ports.learner_version()
        for consumer in rings:
            while (slot := consumer.peek()) is not None and version - int(slot.fields["version"][0]) > self._max_lag:
                self._drop(consumer)

    def _drop(self, consumer: Consumer) -> None:
        slot = consumer.peek()
        assert slot is not None
        self._ports.block.add("dropped_stale", slot.samples)
        consumer.release(dropped_stale=slot.samples)

    def _choose(self) -> bool:
        """Pick F fragments, oldest first and in turn from every ring."""
        rings = self._ports.rings
        self._chosen.clear()
        if self._ports.dependencies is Dependencies.STRICT:
            return self._choose_in_order()
        self._drop_stale()
        peeked, start = self._peeked, self._next_ring
        peeked[:] = [0] * len(rings)
        idle = 0
        ring = start
        while len(self._chosen) < self._count and idle < len(rings):
            slot = rings[ring].peek(peeked[ring])
            if slot is None:
                idle += 1
            else:
                idle = 0
                peeked[ring] += 1
                self._chosen.append((ring, slot))
            ring = (ring + 1) % len(rings)
        return len(self._chosen) == self._count

    def _is_all(self) -> bool:
        """Draining: there is something, and for a while nothing more has come. If more comes, that makes another."""
        if not self._ports.draining:
            return False
        now, arrived = self._ports.clock(), sum(ring.released + ring.available for ring in self._ports.rings)
        if arrived != self._arrived:
            self._arrived, self._arrived_at = arrived, now
        return bool(self._chosen) and now - self._arrived_at >= QUIET_S

    def _choose_in_order(self) -> bool:
        """Strict: round after round, in each one fragment of every actor, so that arrival order cannot matter."""
        rings = self._ports.rings
        first = self._released()
        for number in range(first, first + self._count):
            turn, ring = divmod(number, len(rings))
            fragment = rings[ring].peek(turn - rings[ring].released)
            if fragment is None:
                self._grant(turn)
                return False
            self._chosen.append((ring, fragment))
        return True

    def _grant(self, turn: int) -> None:
        """Let the actors make one more round of an unfinished batch: tell the learner, which tells them."""
        if self._ports.turn_told() < turn and (slot := self._ports.batches.acquire()) is not None:
            self._write_tidings(slot, turn)
            self._ports.batches.commit(0)

    def _released(self) -> int:
        return sum(consumer.released for consumer in self._ports.rings)

    def _fill(self, batch: Slot) -> None:
        ports = self._ports
        width = ports.num_envs
        fields = batch.fields
        began = ports.clock()
        for part, (ring, fragment) in enumerate(self._chosen):
            columns = slice(part * width, (part + 1) * width)
            for name in _PER_CELL:
                fields[name][:, columns] = fragment.fields[name]
            fields["version"][:, part] = fragment.fields["version"]
            fields["source"][part] = (ports.actors[ring], fragment.sequence)
        self._leave_empty(fields, len(self._chosen))
        samples = sum(fragment.samples for _, fragment in self._chosen)
        self._write_tidings(batch, (self._released() + len(self._chosen)) // len(ports.rings), in_hand=samples)
        ports.batches.commit(samples)
        for ring, fragment in self._chosen:
            ports.rings[ring].release(consumed=fragment.samples)
        self._next_ring = (self._chosen[-1][0] + 1) % len(ports.rings)
        ports.block.add("batches", 1)
        ports.receive_time.update((ports.clock() - began) / len(self._chosen))
        ports.block.set("t_rv_s", ports.receive_time.value)

    def _leave_empty(self, fields: Mapping[str, np.ndarray], first: int) -> None:
        """Parts from `first` on hold nothing: no cell is valid, and none spoils a sum."""
        if first < self._count:
            for name in _PER_CELL:
                fields[name][:, first * self._ports.num_envs :] = 0
            fields["version"][:, first:] = fields["version"][:, :1]
            fields["source"][first:] = _NO_SOURCE

    def _write_tidings(self, slot: Slot, turn: int | None = None, in_hand: int = 0) -> None:
        slot.fields["env_steps"][0] = self._ports.global_env_steps(in_hand)
        slot.fields["turn"][0] = self._ports.turn_told() if turn is None else turn

    def save(self, folder: Path) -> None:
        """Nothing of the queue is kept: what is in flight at the cut is accounted as dropped on resume."""
        save_shard(folder, self.name, {}, {})

    def stop(self) -> None:
        self._chosen.clear()

    def waits(self) -> Sequence[int]:
        return self._ports.wait_fds


def _release_sent(consumer: Consumer, actor: int, source_F2: np.ndarray) -> None:
    sent = source_F2[source_F2[:, 0] == actor, 1]
    while sent.size and (slot := consumer.peek()) is not None and slot.sequence <= sent.max():
        consumer.release(consumed=slot.samples)
