"""The buffer for off-policy algorithms: a replay memory, filled from fragments and sampled at the pace of the job."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from runtime.algorithms.schedules import linear
from runtime.checkpoint.shard import save_shard
from runtime.components.base import Progress
from runtime.components.saving import save_and_mark
from runtime.components.transitions import finite_rows, transitions
from runtime.contract.states import Dependencies

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np

    from runtime.components.ports import BufferPorts
    from runtime.contract.algorithm import DqnConfig
    from runtime.freshness.pace import Pace
    from runtime.memory.ring import Consumer, Slot
    from runtime.replay.memory import Replay

_log = logging.getLogger(__name__)

NOT_ROWS = ("cursor", "taken", "taking", "trained")  #: arrays of the memory that are not one row per transition


class ReplayBuffer:
    """Inserts fragments, samples batches, writes priorities back.

    The replay arrays live in a segment of their own and remember, per actor, the last fragment taken, so a buffer that
    is killed, or replaced because actors came and went, goes on with the same memory. Pace: relaxed lets the learner
    train ahead of or behind the balance by a bounded number of samples; `policy-only` and `strict` hold it exactly, one
    fragment (or round) at a time.

    `strict` takes turns: a round is one fragment of every ring; then the updates it is worth, one batch at a time, each
    with the priorities of the one before; the last one, or an empty slot, tells the learner that the round is over.
    All of that is read off the rings, so a successor goes on in the middle of a round.
    """

    def __init__(
        self,
        name: str,
        ports: BufferPorts,
        replay: Replay,
        memory: Mapping[str, np.ndarray],
        config: DqnConfig,
        pace: Pace,
        batch: int,
        rng: np.random.Generator,
    ) -> None:
        self.name = name
        self._ports = ports
        self._replay = replay
        self._memory = memory
        self._taken, self._taking, self._trained = memory["taken"], memory["taking"], memory["trained"]
        self._strict = ports.dependencies is Dependencies.STRICT
        self._told_of_gaps = False
        self._config = config
        self._pace = pace
        self._batch = batch
        self._rng = rng

    def start(self) -> None:
        """Release what a predecessor had inserted but not yet let go."""
        self._ports.finish_marker()
        actor, after, inserted = (int(word) for word in self._taking)
        if self._replay.inserted >= inserted:
            self._taken[actor] = max(int(self._taken[actor]), after)
        for actor, consumer in zip(self._ports.actors, self._ports.rings, strict=True):
            while (slot := consumer.peek()) is not None and slot.sequence < self._taken[actor]:
                consumer.release(consumed=slot.samples)

    def tick(self) -> Progress:
        ports = self._ports
        learner_done = ports.batches.unreleased == 0  # looked at first: what it gave back, it has sent priorities for
        worked = self._take_priorities()
        if ports.control.checkpoint_request > ports.block.checkpoint_done:
            return save_and_mark(self, ports, ports.control.checkpoint_request, self._write_tidings)
        if self._strict and not learner_done:
            return Progress.WORKED if worked else Progress.IDLE
        if self._send() or self._take_fragments():
            return Progress.WORKED
        return Progress.WORKED if worked else Progress.IDLE

    def _send(self) -> bool:
        """A batch for the learner if one is owed, or word of a round that is over; False if neither can be sent."""
        owed = self._may_sample()
        if not owed and not (self._strict and self._ports.turn_told() < self._rounds()):
            return False
        slot = self._ports.batches.acquire()
        if slot is None:
            return False
        if owed:
            self._sample(slot)
        else:
            self._write_tidings(slot)
            self._ports.batches.commit(0)
        return True

    def _may_sample(self) -> bool:
        return self._pace.may_sample(trained=int(self._trained[0]), inserted=self._replay.inserted)

    def _may_insert(self) -> bool:
        return self._pace.may_insert(trained=int(self._trained[0]), inserted=self._replay.inserted)

    def _take_fragments(self) -> bool:
        """Insert what is there: one fragment of each actor; in strict mode only whole rounds."""
        if not self._may_insert():
            return False
        rings = list(zip(self._ports.actors, self._ports.rings, strict=True))
        if self._strict:
            rounds = self._rounds()
            rings = [(actor, consumer) for actor, consumer in rings if consumer.released == rounds]
            if any(consumer.available == 0 for _, consumer in rings):
                return False
        taken = 0
        for actor, consumer in rings:
            slot = consumer.peek()
            if slot is not None:
                self._insert(actor, consumer, slot)
                taken += 1
        self._ports.block.set("replay_fill", self._replay.size / self._replay.capacity)
        return taken > 0

    def _rounds(self) -> int:
        """Strict: how many fragments of every ring are in."""
        return min(consumer.released for consumer in self._ports.rings)

    def _insert(self, actor: int, consumer: Consumer, slot: Slot) -> None:
        ports = self._ports
        began = ports.clock()
        lag = ports.learner_version() - int(slot.fields["version"][0])
        if self._config.max_lag is not None and lag > self._config.max_lag:
            ports.block.add("dropped_stale", slot.samples)
            consumer.release(dropped_stale=slot.samples)
            return
        rows = self._finite(transitions(slot.fields, steps=self._config.n_step, gamma=self._config.gamma))
        kept = len(rows["action"])
        # A successor knows by this word whether the insertion was over when its predecessor died.
        self._taking[:] = actor, slot.sequence + 1, self._replay.inserted + kept
        self._replay.insert(rows)
        self._taken[actor] = slot.sequence + 1
        consumer.release(consumed=kept, dropped_other=slot.samples - kept)
        ports.receive_time.update(ports.clock() - began)
        ports.block.set("t_rv_s", ports.receive_time.value)

    def _finite(self, rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Leave out what is no number: in a replay memory it would spoil one batch after the other."""
        finite_N = finite_rows(rows)
        if finite_N.all():
            return rows
        missing = int((~finite_N).sum())
        self._ports.block.add("dropped_other", missing)
        if not self._told_of_gaps:
            self._told_of_gaps = True
            _log.warning("%s: %d transitions are not finite and are left out; more may follow", self.name, missing)
        return {name: column[finite_N] for name, column in rows.items()}

    def _sample(self, slot: Slot) -> None:
        ports = self._ports
        schedule = self._config.replay
        steps = ports.global_env_steps()
        beta = linear(schedule.beta, schedule.beta_end, schedule.beta_steps, steps)
        self._replay.sample(self._batch, slot.fields, beta=beta)
        self._trained[0] += self._batch
        self._write_tidings(slot)
        ports.batches.commit(self._batch)
        ports.block.add("batches", 1)

    def _write_tidings(self, slot: Slot) -> None:
        slot.fields["env_steps"][0] = self._ports.global_env_steps()
        slot.fields["turn"][0] = self._ports.turn_told() if self._may_sample() else self._rounds()

    def _take_priorities(self) -> bool:
        priorities = self._ports.priorities
        if priorities is None or (slot := priorities.peek()) is None:
            return False
        fields = slot.fields
        self._replay.update_priorities(fields["index"], fields["generation"], fields["priority"])
        priorities.release(consumed=slot.samples)
        return True

    def save(self, folder: Path) -> None:
        """Contents, priorities and counters of the memory, and the stream it samples with."""
        arrays = {name: array[: self._replay.size] for name, array in self._memory.items() if name not in NOT_ROWS}
        arrays["cursor"] = self._memory["cursor"]
        arrays["trained"] = self._trained
        save_shard(folder, self.name, arrays, {"random_stream": self._rng.bit_generator.state})

    def stop(self) -> None:
        """Nothing to let go of: rings and memory belong to the agent."""

    def waits(self) -> Sequence[int]:
        return self._ports.wait_fds
