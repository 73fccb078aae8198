"""What assembly hands to a buffer or a learner: its ends of rings and boards, and the few facts it may know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.contract.states import Dependencies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from runtime.memory.block import StatsBlock
    from runtime.memory.board import BoardReader, BoardWriter
    from runtime.memory.control import ControlBlock
    from runtime.memory.ring import Consumer, Producer


@dataclass(slots=True)
class MovingMean:
    """Exponentially weighted mean of a duration; `value` is 0 before the first sample."""

    weight: float = 0.05
    value: float = 0.0
    _count: int = 0

    def update(self, sample: float) -> None:
        """The first samples count fully, so that one slow start does not colour the mean for long."""
        self._count += 1
        self.value += max(self.weight, 1.0 / self._count) * (sample - self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferPorts:
    """A buffer's surroundings. Rings are in actor order."""

    rings: Sequence[Consumer]
    actors: Sequence[int]  #: whose ring each one is: by this number it is known to all lives of the buffer
    batches: Producer
    priorities: Consumer | None
    block: StatsBlock
    control: ControlBlock
    policy: BoardReader
    dependencies: Dependencies
    num_envs: int
    num_groups: int
    checkpoints: Path
    clock: Callable[[], float]
    wait_fds: Sequence[int]
    draining: bool = False  #: its actors leave: what they made is used up, and nothing more will come
    receive_time: MovingMean = field(default_factory=MovingMean)

    def learner_version(self) -> int:
        """The learner's newest published version, −1 before the first."""
        return self.policy.version

    def global_env_steps(self, in_hand: int = 0) -> int:
        """Env steps of the whole run: what the coordinator last told, which is a moment old.

        Where nobody may be ahead of the others, the number must not depend on when it was told: there it is counted
        here. Groups produce alike, so the own share is scaled up; it never goes back, also where a ring has gone.
        `in_hand` are samples that are taken but not released yet.
        """
        control = self.control
        if self.dependencies is Dependencies.RELAXED:
            return max(control.global_env_steps, control.base_env_steps)
        taken = sum(ring.released_samples for ring in self.rings) + in_hand
        told = int(self.batches.last.fields["env_steps"][0]) if self.batches.last is not None else 0
        return max(control.base_env_steps + taken * self.num_groups, told)

    def turn_told(self) -> int:
        """Strict mode: the round up to which the learner has been told that it is over."""
        return int(self.batches.last.fields["turn"][0]) if self.batches.last is not None else 0

    def finish_marker(self) -> None:
        """At the start: a predecessor that died right after its marker had written its shard before it."""
        last = self.batches.last
        if last is not None and last.marker > self.block.checkpoint_done:
            self.block.checkpoint_done = last.marker


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerPorts:
    """A learner's surroundings."""

    batches: Consumer
    priorities: Producer | None
    policy: BoardWriter
    state: BoardWriter
    peers: Sequence[BoardReader]
    donor: BoardReader | None  #: whose state it begins with, where it joins a run
    block: StatsBlock
    control: ControlBlock
    checkpoints: Path
    bad_batches: Path
    beat: Callable[[], None]
    clock: Callable[[], float]
    wait_fds: Sequence[int]
