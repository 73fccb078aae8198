"""The buffer for off-policy algorithms: a replay memory, filled from fragments and sampled at the pace of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.algorithms.schedules import linear
from runtime.checkpoint.shard import save_shard
from runtime.components.base import Progress
from runtime.components.saving import save_part
from runtime.components.transitions import transitions
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


_NOT_ROWS = ("cursor", "taken", "trained")


class ReplayBuffer:
    """Inserts fragments, samples batches, writes priorities back.

    The replay arrays live in a segment of their own and remember, per ring, the last fragment taken, so a buffer that
    is killed goes on with the same memory. Pace: relaxed lets the learner train ahead of or behind the balance by a
    bounded number of samples; `policy-only` and `strict` hold it exactly, one fragment (or round) at a time.
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
        self._taken, self._trained = memory["taken"], memory["trained"]
        self._config = config
        self._pace = pace
        self._batch = batch
        self._rng = rng
        self._rounds = 0

    def start(self) -> None:
        """Release what a predecessor had inserted but not yet let go."""
        for ring, consumer in enumerate(self._ports.rings):
            while (slot := consumer.peek()) is not None and slot.sequence < self._taken[ring]:
                consumer.release(consumed=slot.samples)
        last = self._ports.batches.last
        if last is not None:
            self._rounds = max(0, int(last.fields["turn"][0]))

    def tick(self) -> Progress:
        ports = self._ports
        worked = self._take_priorities()
        if ports.control.checkpoint_request > ports.block.checkpoint_done:
            return self._checkpoint(ports.control.checkpoint_request)
        if self._may_sample():
            slot = ports.batches.acquire()
            if slot is None:
                if self._may_insert() and self._take_fragments():
                    return Progress.WORKED
                return Progress.WORKED if worked else Progress.IDLE
            self._sample(slot)
            return Progress.WORKED
        if self._take_fragments():
            return Progress.WORKED
        return Progress.WORKED if worked else Progress.IDLE

    def _may_sample(self) -> bool:
        return self._pace.may_sample(trained=int(self._trained[0]), inserted=self._replay.inserted)

    def _may_insert(self) -> bool:
        return self._pace.may_insert(trained=int(self._trained[0]), inserted=self._replay.inserted)

    def _take_fragments(self) -> bool:
        """Insert what is there: one fragment of each actor; in strict mode only whole rounds."""
        rings = self._ports.rings
        strict = self._ports.dependencies is Dependencies.STRICT
        if strict and (not self._turn_over() or any(consumer.available == 0 for consumer in rings)):
            return False
        taken = 0
        for ring, consumer in enumerate(rings):
            slot = consumer.peek()
            if slot is not None:
                self._insert(ring, consumer, slot)
                taken += 1
        self._ports.block.set("replay_fill", self._replay.size / self._replay.capacity)
        if strict and taken:
            self._rounds += 1
            self._end_round()
        return taken > 0

    def _turn_over(self) -> bool:
        """Strict: the learner has been told of every round taken so far, with all the updates that it is worth."""
        last = self._ports.batches.last
        return self._rounds == 0 or (last is not None and int(last.fields["turn"][0]) >= self._rounds)

    def _end_round(self) -> None:
        """Strict: a round that is worth no update is passed on by an empty slot."""
        if not self._may_sample():
            slot = self._ports.batches.acquire()
            assert slot is not None, "in strict mode the learner has consumed everything before a new round"
            self._write_tidings(slot)
            self._ports.batches.commit(0)

    def _insert(self, ring: int, consumer: Consumer, slot: Slot) -> None:
        ports = self._ports
        began = ports.clock()
        lag = ports.learner_version() - int(slot.fields["version"][0])
        if self._config.max_lag is not None and lag > self._config.max_lag:
            ports.block.add("dropped_stale", slot.samples)
            consumer.release(dropped_stale=slot.samples)
            return
        self._replay.insert(transitions(slot.fields, steps=self._config.n_step, gamma=self._config.gamma))
        self._taken[ring] = slot.sequence + 1
        consumer.release(consumed=slot.samples)
        ports.receive_time.update(ports.clock() - began)
        ports.block.set("t_rv_s", ports.receive_time.value)

    def _sample(self, slot: Slot) -> None:
        ports = self._ports
        schedule = self._config.replay
        steps = ports.global_env_steps(self._replay.inserted)
        beta = linear(schedule.beta, schedule.beta_end, schedule.beta_steps, steps)
        self._replay.sample(self._batch, slot.fields, beta=beta)
        self._trained[0] += self._batch
        self._write_tidings(slot)
        ports.batches.commit(self._batch)
        ports.block.add("batches", 1)

    def _write_tidings(self, slot: Slot) -> None:
        over = not self._may_sample()
        slot.fields["env_steps"][0] = self._ports.global_env_steps(self._replay.inserted)
        slot.fields["turn"][0] = self._rounds if over else self._rounds - 1

    def _take_priorities(self) -> bool:
        priorities = self._ports.priorities
        if priorities is None or (slot := priorities.peek()) is None:
            return False
        fields = slot.fields
        self._replay.update_priorities(fields["index"], fields["generation"], fields["priority"])
        priorities.release(consumed=slot.samples)
        return True

    def _checkpoint(self, step: int) -> Progress:
        slot = self._ports.batches.acquire()
        if slot is None:
            return Progress.IDLE
        save_part(self, self._ports.checkpoints, step, self._ports.block)
        slot.fields["env_steps"][0] = self._ports.global_env_steps(self._replay.inserted)
        slot.fields["turn"][0] = self._rounds
        self._ports.batches.commit(0, marker=step)
        return Progress.WORKED

    def save(self, folder: Path) -> None:
        """Contents, priorities and counters of the memory, and the stream it samples with."""
        arrays = {name: array[: self._replay.size] for name, array in self._memory.items() if name not in _NOT_ROWS}
        arrays["cursor"] = self._memory["cursor"]
        arrays["trained"] = self._trained
        save_shard(folder, self.name, arrays, {"random_stream": self._rng.bit_generator.state})

    def stop(self) -> None:
        """Nothing to let go of: rings and memory belong to the agent."""

    def waits(self) -> Sequence[int]:
        return self._ports.wait_fds
