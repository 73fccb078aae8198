"""The buffer for on-policy algorithms: a bounded queue that turns fragments into batches, each used once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from runtime.checkpoint.shard import save_shard
from runtime.components.base import Progress
from runtime.components.saving import save_part
from runtime.contract.states import Dependencies

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runtime.components.ports import BufferPorts
    from runtime.memory.ring import Consumer, Slot

_PER_CELL = ("obs", "next_obs", "action", "reward", "terminated", "truncated", "valid", "logp")


class QueueBuffer:
    """Joins F fragments along the environment axis into one batch.

    A fragment is released only after the batch that holds it is committed, and every batch names its sources, so a
    buffer that is killed between the two neither loses a fragment nor sends one twice.
    """

    def __init__(self, name: str, ports: BufferPorts, *, fragments_per_batch: int, max_lag: int) -> None:
        self.name = name
        self._ports = ports
        self._count = fragments_per_batch
        self._max_lag = max_lag
        self._next_ring = 0
        self._taken = 0
        self._rounds = 0
        self._chosen: list[tuple[int, Slot]] = []
        self._peeked = [0] * len(ports.rings)

    def start(self) -> None:
        """Finish what a predecessor left half done: release the fragments of its last committed batch."""
        last = self._ports.batches.last
        for ring, consumer in enumerate(self._ports.rings):
            self._taken += consumer.released_samples
            if last is not None and last.samples > 0:
                self._release_sent(consumer, ring, last.fields["source"])
        if last is not None:
            self._rounds = max(0, int(last.fields["turn"][0]))

    def _release_sent(self, consumer: Consumer, ring: int, source_F2: np.ndarray) -> None:
        sent = source_F2[source_F2[:, 0] == ring, 1]
        while sent.size and (slot := consumer.peek()) is not None and slot.sequence <= sent.max():
            self._taken += slot.samples
            consumer.release(consumed=slot.samples)

    def tick(self) -> Progress:
        ports = self._ports
        if ports.control.checkpoint_request > ports.block.checkpoint_done:
            return self._checkpoint(ports.control.checkpoint_request)
        if ports.dependencies is Dependencies.POLICY_ONLY and ports.batches.unreleased > 0:
            return Progress.IDLE  # the learner is busy: what it trains on next must be made meanwhile
        self._drop_stale()
        if not self._choose():
            return Progress.IDLE
        batch = ports.batches.acquire()
        if batch is None:
            return Progress.IDLE
        self._fill(batch)
        return Progress.WORKED

    def _drop_stale(self) -> None:
        version = self._ports.learner_version()
        for consumer in self._ports.rings:
            if self._ports.dependencies is Dependencies.POLICY_ONLY:
                while consumer.available > 1:
                    self._drop(consumer)
            while (slot := consumer.peek()) is not None and version - int(slot.fields["version"][0]) > self._max_lag:
                self._drop(consumer)

    def _drop(self, consumer: Consumer) -> None:
        slot = consumer.peek()
        assert slot is not None
        self._taken += slot.samples
        self._ports.block.add("dropped_stale", slot.samples)
        consumer.release(dropped_stale=slot.samples)

    def _choose(self) -> bool:
        """Pick F fragments, oldest first and in turn from every ring; in strict mode the same number from each."""
        rings = self._ports.rings
        self._chosen.clear()
        if self._ports.dependencies is Dependencies.STRICT:
            return self._choose_rounds()
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

    def _choose_rounds(self) -> bool:
        """Strict: whole rounds, one fragment of each actor at a time, so that arrival order cannot matter."""
        rings = self._ports.rings
        rounds = self._count // len(rings)
        if any(consumer.available < rounds for consumer in rings):
            self._grant_turn(rounds)
            return False
        self._chosen += [(ring, slot) for i in range(rounds) for ring, c in enumerate(rings) if (slot := c.peek(i))]
        return True

    def _grant_turn(self, rounds: int) -> None:
        """Let the actors make the next round of an unfinished batch: tell the learner, which tells them."""
        complete = self._rounds + min(consumer.available for consumer in self._ports.rings)
        last = self._ports.batches.last
        if complete == self._rounds or (last is not None and int(last.fields["turn"][0]) >= complete):
            return
        if rounds > 1 and (slot := self._ports.batches.acquire()) is not None:
            self._write_tidings(slot, complete)
            self._ports.batches.commit(0)

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
            fields["source"][part] = (ring, fragment.sequence)
        samples = sum(fragment.samples for _, fragment in self._chosen)
        self._taken += samples
        if ports.dependencies is Dependencies.STRICT:
            self._rounds += self._count // len(ports.rings)
        self._write_tidings(batch, self._rounds)
        ports.batches.commit(samples)
        for ring, fragment in self._chosen:
            ports.rings[ring].release(consumed=fragment.samples)
        self._next_ring = (self._chosen[-1][0] + 1) % len(ports.rings)
        ports.block.add("batches", 1)
        ports.receive_time.update((ports.clock() - began) / self._count)
        ports.block.set("t_rv_s", ports.receive_time.value)

    def _write_tidings(self, slot: Slot, turn: int) -> None:
        slot.fields["env_steps"][0] = self._ports.global_env_steps(self._taken)
        slot.fields["turn"][0] = turn

    def _checkpoint(self, step: int) -> Progress:
        """The queue itself is not saved: what is in flight at the cut is accounted as dropped on resume."""
        slot = self._ports.batches.acquire()
        if slot is None:
            return Progress.IDLE
        save_part(self, self._ports.checkpoints, step, self._ports.block)
        self._write_tidings(slot, self._rounds)
        self._ports.batches.commit(0, marker=step)
        return Progress.WORKED

    def save(self, folder: Path) -> None:
        save_shard(folder, self.name, {}, {"samples_taken": self._taken})

    def stop(self) -> None:
        self._chosen.clear()

    def waits(self) -> Sequence[int]:
        return self._ports.wait_fds
