"""The learner: trains on batches in place, publishes versions, averages with its peers, rolls back bad updates."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.algorithms.averaging import track
from runtime.checkpoint.errors import CheckpointError
from runtime.checkpoint.shard import save_shard
from runtime.components.base import Progress
from runtime.components.donor import await_state
from runtime.components.saving import save_part
from runtime.contract.states import Dependencies
from runtime.freshness.lags import count_lags

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from runtime.algorithms.base import Algorithm, UpdateReport
    from runtime.components.ports import LearnerPorts
    from runtime.contract.job import TrainingConfig
    from runtime.memory.ring import Slot

_log = logging.getLogger(__name__)

KEPT_BAD_BATCHES = 3  #: of a row of updates that were not finite, the first few are enough to look at
HOPELESS_AFTER = 20  #: so many of them in a row end this life of the learner


class NotFiniteError(ArithmeticError):
    """Every update of late had a loss or gradient that is no number: the data or the settings are at fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerSettings:
    """What the job says of this learner."""

    training: TrainingConfig
    publish_every: int
    learning_rate_scale: float  #: 1 / (1 + λ·P)
    max_updates: int | None  #: this learner's share of `training.stop.updates`: it makes these and not one more


class Learner:
    """One policy, trained from one ring of batches.

    After a crash it goes on from its state board, which is written at every publication: the updates made since are
    lost, at most `publish_every` − 1; where it ends in good order, none. A publication that is due comes before the
    release of its batch, and the state names the last batch trained on, so no batch counts twice and no turn is
    forgotten. One that joins a run begins with the state of a learner that is there, and with counters of its own.
    """

    def __init__(self, name: str, ports: LearnerPorts, algorithm: Algorithm, settings: LearnerSettings) -> None:
        self.name = name
        self._ports = ports
        self._algorithm = algorithm
        self._settings = settings
        self._shadow = algorithm.params.copy() if settings.training.shadow.enabled else None
        self._updates = 0
        self._trained = 0
        self._env_steps = 0
        self._turn = 0
        self._last_sequence = -1
        self._undone_in_a_row = 0
        self._undone_because = ""
        self._sound = False  #: no update is under way or was cut short
        self._since_publish = 0
        self._peer_versions = [-1] * len(ports.peers)
        self._busy_s = 0.0
        self._span_began = 0.0

    def resume(self, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
        """Take over what a checkpoint holds; before `start`."""
        self._algorithm.load_state(arrays)
        if self._shadow is not None:
            self._shadow[:] = arrays.get("shadow", self._algorithm.params)
        self._updates = int(meta["updates"])
        self._trained = int(meta["samples_trained"])
        self._env_steps = int(meta["env_steps"])

    def start(self) -> None:
        """Continue from the state board if a predecessor wrote one; then publish, so that actors can begin."""
        if (state := self._ports.state.current()) is not None:
            self._take_over(state)
        elif (donor := self._ports.donor) is not None:
            state = await_state(donor, control=self._ports.control, beat=self._ports.beat, clock=self._ports.clock)
            if state is None:
                return  # told to stop meanwhile
            self._begin_with(state)
        block = self._ports.block
        # Updates that a predecessor made and did not publish are lost, but counters and versions never go back.
        self._updates = max(self._updates, int(block.get("updates")), self._ports.policy.version)
        self._trained = max(self._trained, int(block.get("samples_trained")))
        block.set("updates", self._updates)
        block.set("samples_trained", self._trained)
        self._publish()
        self._sound = True
        self._span_began = self._ports.clock()

    def _take_over(self, state: Mapping[str, np.ndarray]) -> None:
        self._begin_with(state)
        counters = state["learner"]
        self._trained = int(counters[1])
        self._turn, self._last_sequence = int(counters[3]), int(counters[4])

    def _begin_with(self, state: Mapping[str, np.ndarray]) -> None:
        """Parameters, optimiser, target and shadow of a state, be it a predecessor's or another learner's."""
        self._algorithm.load_state(state)
        if self._shadow is not None:
            self._shadow[:] = state["shadow"]
        self._env_steps = int(state["learner"][2])

    def tick(self) -> Progress:
        """One batch. NotFiniteError where update after update has to be undone: going on would train nothing."""
        slot = self._ports.batches.peek()
        if slot is None:
            return Progress.IDLE
        self._sound = False
        ports, limit = self._ports, self._settings.max_updates
        began, marker = ports.clock(), slot.marker
        self._env_steps = int(slot.fields["env_steps"][0])
        turned = int(slot.fields["turn"][0]) != self._turn
        self._turn = int(slot.fields["turn"][0])
        if marker > ports.block.checkpoint_done:
            save_part(self, ports.checkpoints, marker, ports.block)
            ports.block.checkpoint_done = marker
        used = slot.samples > 0 and slot.sequence > self._last_sequence
        dropped = used and ((limit is not None and self._updates >= limit) or not self._train(slot))
        if self._since_publish >= self._settings.publish_every or (
            turned and self._settings.training.dependencies is Dependencies.STRICT
        ):
            self._publish()
        if dropped:
            ports.block.add("dropped_other", slot.samples)
            ports.batches.release(dropped_other=slot.samples)
        else:
            ports.batches.release(consumed=slot.samples)
        if self._undone_in_a_row >= HOPELESS_AFTER:
            raise NotFiniteError(f"{self._undone_in_a_row} updates in a row were not finite: {self._undone_because}")
        self._sound = True
        self._account(began)
        return Progress.WORKED

    def _train(self, slot: Slot) -> bool:
        """One update; False if it was not finite and has been undone."""
        self._measure_lag(slot)
        report = self._algorithm.update(
            slot.fields,
            env_steps=self._env_steps,
            learning_rate_scale=self._settings.learning_rate_scale,
            beat=self._ports.beat,
        )
        if not report.finite:
            self._roll_back(slot, report)
            return False
        self._undone_in_a_row = 0
        self._updates += 1
        self._trained += slot.samples
        self._last_sequence = slot.sequence
        self._since_publish += 1
        self._send_priorities(slot, report)
        self._average_shadow()
        self._report(report)
        if self._updates % self._settings.training.sync_every == 0:
            self._average_with_peers()
        return True

    def _measure_lag(self, slot: Slot) -> None:
        versions = slot.fields["version"].ravel()
        weight = max(1, slot.samples // versions.size)
        self._ports.block.lag_histogram += count_lags(self._updates - versions) * weight

    def _report(self, report: UpdateReport) -> None:
        block = self._ports.block
        block.set("updates", self._updates)
        block.set("samples_trained", self._trained)
        for name, value in report.diagnostics.items():
            block.set(name, value)

    def _send_priorities(self, slot: Slot, report: UpdateReport) -> None:
        ring = self._ports.priorities
        if ring is None or report.priorities is None:
            return
        out = ring.acquire()
        if out is None:
            return  # the buffer is behind: these samples keep the priority they had
        out.fields["index"][:] = slot.fields["index"]
        out.fields["generation"][:] = slot.fields["generation"]
        out.fields["priority"][:] = report.priorities
        ring.commit(len(report.priorities))

    def _average_shadow(self) -> None:
        if self._shadow is not None:
            track(self._shadow, self._algorithm.params, self._settings.training.shadow.rate)

    def _average_with_peers(self) -> None:
        """Mean of the own parameters and the newest of every peer that has published since last time."""
        fresh = []
        for index, peer in enumerate(self._ports.peers):
            version = peer.version
            if version > self._peer_versions[index]:
                into = {"params": np.empty_like(self._algorithm.params)}
                if peer.read(into) is not None:
                    fresh.append(into["params"])
                self._peer_versions[index] = version
        if fresh:
            self._algorithm.average_with(fresh)

    def _publish(self) -> None:
        policy, state = self._ports.policy, self._ports.state
        fields = policy.begin()
        fields["params"][:] = self._algorithm.params
        fields["progress"][:] = (self._env_steps, self._updates, self._trained, self._turn)
        if self._shadow is not None:
            fields["shadow"][:] = self._shadow
        kept = state.begin()
        for name, array in self._algorithm.state().items():
            kept[name][...] = array
        if self._shadow is not None:
            kept["shadow"][:] = self._shadow
        kept["learner"][:] = (self._updates, self._trained, self._env_steps, self._turn, self._last_sequence)
        state.publish(self._updates)
        policy.publish(self._updates)
        self._ports.block.set("version", self._updates)
        self._since_publish = 0

    def _roll_back(self, slot: Slot, report: UpdateReport) -> None:
        """A non-finite update: keep the batch for inspection, go back to the last published state, and say so."""
        _log.warning("%s: update %d undone: %s", self.name, self._updates + 1, report.reason)
        if self._undone_in_a_row < KEPT_BAD_BATCHES:
            self._keep_batch(slot, report.reason)
        if (state := self._ports.state.current()) is not None:
            self._algorithm.load_state(state)
        self._ports.block.add("rollbacks", 1)
        self._last_sequence = slot.sequence
        self._undone_in_a_row += 1
        self._undone_because = report.reason

    def _keep_batch(self, slot: Slot, reason: str) -> None:
        step = self._updates + 1
        arrays = {name: np.ascontiguousarray(array) for name, array in slot.fields.items()}
        name = f"{self.name}-update-{step}" + (f".{self._undone_in_a_row}" if self._undone_in_a_row else "")
        try:
            save_shard(self._ports.bad_batches, name, arrays, {"reason": reason, "update": step})
        except CheckpointError as error:
            _log.warning("the batch could not be kept: %s", error)

    def save(self, folder: Path) -> None:
        """Parameters, optimiser, targets, random streams and counters."""
        arrays = {name: np.ascontiguousarray(array) for name, array in self._algorithm.state().items()}
        if self._shadow is not None:
            arrays["shadow"] = self._shadow
        meta = {"updates": self._updates, "samples_trained": self._trained, "env_steps": self._env_steps}
        save_shard(folder, self.name, arrays, meta)

    def _account(self, began: float) -> None:
        now = self._ports.clock()
        self._busy_s += now - began
        if now - self._span_began > 1.0:
            self._ports.block.set("busy_share", self._busy_s / (now - self._span_began))
            self._busy_s, self._span_began = 0.0, now

    def stop(self) -> None:
        """Publish what is not published yet, for who comes after; not where an error has cut an update short."""
        if self._sound and self._since_publish > 0:
            self._publish()

    def waits(self) -> Sequence[int]:
        return self._ports.wait_fds
