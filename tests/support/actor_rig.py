"""Everything around one actor: a real ring and board, an environment whose every observation can be told in advance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from runtime.components.actor import Actor, ActorPorts, ActorSettings
from runtime.components.base import Progress
from runtime.components.fragments import fragment_layout
from runtime.contract.algorithm import DqnConfig, PpoConfig
from runtime.contract.job import EnvConfig
from runtime.contract.plan import Sizes
from runtime.contract.states import Dependencies
from runtime.envs.vector import make_vector_env
from runtime.memory.block import StatsBlock
from runtime.memory.board import Board, BoardReader, BoardSpec, BoardWriter
from runtime.memory.control import CONTROL_BYTES, ControlBlock
from runtime.memory.eventfd import EventFd
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import Consumer, Producer, Ring, RingSpec, read_ledger
from runtime.memory.segment import Segment
from runtime.models.spec import NetworkSpec

ROLLOUT, NUM_ENVS, SLOTS = 6, 4, 3
PPO = PpoConfig(name="ppo")
DQN = DqnConfig(name="dqn", epsilon_start=1.0, epsilon_end=0.1, epsilon_steps=1000)


class Clock:
    """Stands still, or moves on by `pace_s` at each look: then every tick is over after one step."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pace_s = 0.0

    def __call__(self) -> float:
        self.now += self.pace_s
        return self.now


class Rig:
    """Everything around one actor of a group."""

    def __init__(
        self,
        folder: Path,
        *,
        mode: str = "NextStep",
        env: EnvConfig | None = None,
        algorithm: PpoConfig | DqnConfig = PPO,
        dependencies: Dependencies = Dependencies.RELAXED,
        num_actors: int = 1,
    ) -> None:
        self.folder, self.algorithm, self.dependencies, self.num_actors = folder, algorithm, dependencies, num_actors
        self.env = env or EnvConfig(id="counting:vector", kwargs={"mode": mode})
        stepper = make_vector_env(self.env, NUM_ENVS, np.random.SeedSequence(0))
        stepper.close()
        self.network = NetworkSpec.of(stepper.spec, algorithm)
        self.clock = Clock()
        self._ring = RingSpec("fragments", fragment_layout(stepper.spec, fragment_sizes(), algorithm.name), SLOTS)
        fields = (Field("params", "float32", (self.network.layout.size,)), Field("progress", "int64", (4,)))
        self._board = BoardSpec("policy", Layout(fields))
        self._ring_segment = Segment.anonymous(self._ring.nbytes)
        self._board_segment = Segment.anonymous(self._board.nbytes)
        Ring.format(self._ring_segment, self._ring)
        Board.format(self._board_segment, self._board)
        self.block = StatsBlock(Segment.anonymous(StatsBlock.nbytes(1)))
        self.control = ControlBlock(Segment.anonymous(CONTROL_BYTES))
        self._writer = BoardWriter(self._board_segment, self._board)
        self._events = {"data_ready": EventFd.create(), "space_ready": EventFd.create()}
        self.consumer = Consumer(self._ring_segment, self._ring, **self._events)

    def actor(self, index: int = 0, attempt: int = 0) -> Actor:
        ports = ActorPorts(
            ring=Producer(self._ring_segment, self._ring, **self._events),
            policy=BoardReader(self._board_segment, self._board),
            block=self.block,
            control=self.control,
            checkpoints=self.folder,
            clock=self.clock,
            wait_fds=(self._events["space_ready"].fileno(),),
        )
        settings = ActorSettings(
            env=self.env,
            algorithm=self.algorithm,
            num_envs=NUM_ENVS,
            rollout=ROLLOUT,
            dependencies=self.dependencies,
            run_seed=11,
            index=index,
            attempt=attempt,
            num_actors=self.num_actors,
        )
        actor = Actor("actor-0", ports, settings)
        actor.start()
        return actor

    def params(self, version: int) -> np.ndarray:
        return self.network.initial(np.random.default_rng(version)) * 3.0

    def publish(self, version: int, *, env_steps: int = 0, turn: int = 0) -> None:
        fields = self._writer.begin()
        fields["params"][:] = self.params(version)
        fields["progress"][:] = (env_steps, version, 0, turn)
        self._writer.publish(version)

    def take(self) -> dict[str, np.ndarray] | None:
        """A copy of the oldest fragment, released; None if there is none."""
        slot = self.consumer.peek()
        if slot is None:
            return None
        fields = {name: array.copy() for name, array in slot.fields.items()}
        fields["samples"] = np.int64(slot.samples)
        fields["sequence"] = np.int64(slot.sequence)
        self.consumer.release(consumed=slot.samples)
        return fields

    def play(self, actor: Actor, fragments: int) -> list[dict[str, np.ndarray]]:
        """Tick and take until there are that many."""
        taken: list[dict[str, np.ndarray]] = []
        while len(taken) < fragments:
            assert actor.tick() is Progress.WORKED
            if (fragment := self.take()) is not None:
                taken.append(fragment)
        return taken

    @property
    def ledger(self) -> Any:
        return read_ledger(self._ring_segment, self._ring)


def fragment_sizes() -> Sizes:
    return Sizes(
        num_envs=NUM_ENVS,
        rollout=ROLLOUT,
        batch_size=ROLLOUT * NUM_ENVS,
        fragments_per_batch=1,
        buffer_size=ROLLOUT * NUM_ENVS * 4,
        ring_slots=SLOTS,
        batch_slots=2,
        publish_every=1,
        staleness_tolerance=1.0,
        pool_ratio=0.25,
    )


def joined(fragments: list[dict[str, np.ndarray]], name: str) -> np.ndarray:
    return np.concatenate([fragment[name] for fragment in fragments])
