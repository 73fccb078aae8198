"""From a plan to its components with all their ends connected: the only place where they are wired together."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from runtime import wiring as names
from runtime.algorithms.registry import make_algorithm
from runtime.components.actor import Actor, ActorPorts, ActorSettings
from runtime.components.evaluator import Evaluator, EvaluatorPorts
from runtime.components.learner import Learner, LearnerSettings
from runtime.components.ports import BufferPorts, LearnerPorts
from runtime.components.queue_buffer import QueueBuffer
from runtime.components.replay_buffer import ReplayBuffer
from runtime.components.restoring import is_untouched, restore_learner, restore_replay, restored_stream
from runtime.contract.algorithm import DqnConfig
from runtime.contract.shape import share
from runtime.contract.states import Dependencies, Role
from runtime.freshness.measures import learning_rate_scale
from runtime.freshness.pace import Pace
from runtime.memory.block import StatsBlock
from runtime.memory.board import BoardReader, BoardWriter
from runtime.memory.control import ControlBlock
from runtime.memory.ring import Consumer, Producer
from runtime.models.spec import NetworkSpec
from runtime.replay.memory import Replay
from runtime.resources import CONTROL
from runtime.seeding import seed_sequence

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.components.base import Component
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Placement, Plan
    from runtime.memory.eventfd import EventFd
    from runtime.resources import Resources

LIVES_PER_ATTEMPT = 1_000_000  #: keeps random streams of different attempts of the run apart


class Assembly:
    """Builds any component of one plan over one node's resources."""

    def __init__(
        self,
        plan: Plan,
        node: str,
        resources: Resources,
        paths: RunPaths,
        *,
        run_attempt: int,
        resume_from: Path | None,
    ) -> None:
        self.plan = plan
        self.wiring = names.wire(plan, node)
        self.control = ControlBlock(resources.segment(CONTROL))
        self._resources = resources
        self._paths = paths
        self._run_attempt = run_attempt
        self._resume_from = resume_from
        self._builders: dict[Role, Callable[[Placement, int], Component]] = {
            Role.ACTOR: self._actor,
            Role.BUFFER: self._buffer,
            Role.LEARNER: self._learner,
            Role.EVALUATOR: self._evaluator,
        }

    @staticmethod
    def wiring_of(plan: Plan, node: str) -> names.Wiring:
        """What has to be allocated before an assembly can be made."""
        return names.wire(plan, node)

    def build(self, name: str, attempt: int) -> Component:
        """A component of the plan, ready to `start`; `attempt` counts its lives from 1."""
        placement = next(placement for placement in self.plan.placements if placement.name == name)
        return self._builders[placement.role](placement, attempt)

    def block(self, name: str) -> StatsBlock:
        """The heartbeat and stats block of a component."""
        return StatsBlock(self._resources.segment(names.block_of(name)))

    def _seed(self, placement: Placement, attempt: int) -> np.random.SeedSequence:
        return seed_sequence(self.plan.job.training.seed, placement.role, placement.index, self._life(attempt))

    def _life(self, attempt: int) -> int:
        return self._run_attempt * LIVES_PER_ATTEMPT + attempt

    def _actor(self, placement: Placement, attempt: int) -> Component:
        job, sizes = self.plan.job, self.plan.sizes
        ring, board = names.fragments_ring(placement.name), names.policy_board(placement.group)
        ports = ActorPorts(
            ring=self._producer(ring),
            policy=self._reader(names.policy_board(placement.group)),
            block=self.block(placement.name),
            control=self.control,
            checkpoints=self._paths.checkpoints,
            clock=time.monotonic,
            wait_fds=self._fds(f"{ring}:space", f"{board}:{placement.name}"),
        )
        settings = ActorSettings(
            env=job.env,
            algorithm=job.algorithm,
            num_envs=sizes.num_envs,
            rollout=sizes.rollout,
            dependencies=job.training.dependencies,
            run_seed=job.training.seed,
            index=placement.index,
            attempt=self._life(attempt),
            num_actors=len(self.plan.of_role(Role.ACTOR)),
            stream=restored_stream(self._resume_from, placement.name) if self._resume_from and attempt == 1 else None,
        )
        return Actor(placement.name, ports, settings)

    def _buffer(self, placement: Placement, attempt: int) -> Component:
        plan, group = self.plan, placement.group
        algorithm = plan.job.algorithm
        actors = plan.group_of(group, Role.ACTOR)
        rings = [names.fragments_ring(actor.name) for actor in actors]
        batches, priorities = names.batches_ring(group), names.priorities_ring(group)
        waits = [*(f"{ring}:data" for ring in rings), f"{batches}:space"]
        returns = self._consumer(priorities) if priorities in self.wiring.rings else None
        if returns is not None:
            waits.append(f"{priorities}:data")
        ports = BufferPorts(
            rings=[self._consumer(ring) for ring in rings],
            actors=[actor.index for actor in actors],
            batches=self._producer(batches),
            priorities=returns,
            block=self.block(placement.name),
            control=self.control,
            policy=self._reader(names.policy_board(group)),
            dependencies=plan.job.training.dependencies,
            num_envs=plan.sizes.num_envs,
            num_groups=len(plan.groups),
            draining=names.drains(plan, group),
            checkpoints=self._paths.checkpoints,
            clock=time.monotonic,
            wait_fds=self._fds(*waits),
        )
        if isinstance(algorithm, DqnConfig):
            return self._replay_buffer(placement, attempt, ports, algorithm)
        return QueueBuffer(
            placement.name, ports, fragments_per_batch=plan.sizes.fragments_per_batch, max_lag=algorithm.max_lag
        )

    def _replay_buffer(
        self, placement: Placement, attempt: int, ports: BufferPorts, algorithm: DqnConfig
    ) -> ReplayBuffer:
        sizes = self.plan.sizes
        name = names.replay_memory(placement.group)
        memory = self.wiring.replays[name].views(self._resources.segment(name).memory)
        rng = np.random.default_rng(self._seed(placement, attempt))
        if self._resume_from is not None and not self._joins(placement.group) and is_untouched(memory):
            restore_replay(self._resume_from, self.plan, placement.group, memory, rng)
        exact = self.plan.job.training.dependencies is not Dependencies.RELAXED
        slack = 0.0 if exact else max(4.0 * sizes.batch_size, algorithm.samples_per_insert * sizes.fragment_samples)
        pace = Pace(algorithm.samples_per_insert, algorithm.learning_starts, slack)
        replay = Replay(memory, algorithm.replay, sizes.buffer_size, rng)
        return ReplayBuffer(placement.name, ports, replay, memory, algorithm, pace, sizes.batch_size, rng)

    def _learner(self, placement: Placement, attempt: int) -> Component:
        plan, group = self.plan, placement.group
        training, sizes = plan.job.training, plan.sizes
        batches, priorities, state = names.batches_ring(group), names.priorities_ring(group), names.state_board(group)
        policy = names.policy_board(group)
        block = self.block(placement.name)
        ports = LearnerPorts(
            batches=self._consumer(batches),
            priorities=self._producer(priorities) if priorities in self.wiring.rings else None,
            policy=BoardWriter(
                self._resources.segment(policy), self.wiring.boards[policy], readers=self._reader_events(policy)
            ),
            # Nobody is woken by it: who mirrors it does so once, and looks by itself.
            state=BoardWriter(self._resources.segment(state), self.wiring.boards[state], readers=()),
            peers=[self._reader(names.policy_board(peer)) for peer in plan.groups if peer != group],
            donor=self._reader(names.state_board(placement.donor)) if placement.donor is not None else None,
            block=block,
            control=self.control,
            checkpoints=self._paths.checkpoints,
            bad_batches=self._paths.bad_batches,
            beat=block.beat,
            clock=time.monotonic,
            wait_fds=self._fds(f"{batches}:data"),
        )
        settings = LearnerSettings(
            training=training,
            publish_every=sizes.publish_every,
            learning_rate_scale=learning_rate_scale(training.staleness_learning_rate, sizes.pool_ratio),
            max_updates=self._most_updates(group),
        )
        algorithm = make_algorithm(plan.job.algorithm, plan.env, sizes, self._seed(placement, attempt))
        learner = Learner(placement.name, ports, algorithm, settings)
        if self._resume_from is not None and not self._joins(group) and ports.state.current() is None:
            restore_learner(self._resume_from, plan, group, learner)
        return learner

    def _joins(self, group: int) -> bool:
        """Whether the group joins a run that is under way: what a checkpoint holds has been dealt out to others."""
        return any(learner.donor is not None for learner in self.plan.group_of(group, Role.LEARNER))

    def _most_updates(self, group: int) -> int | None:
        """The group's share of the job's updates, exact as long as nobody joins or leaves; then the total decides."""
        plan = self.plan
        total = plan.job.training.stop.updates
        if total is None or plan.revision > 1:
            return None
        return share(total, len(plan.groups), plan.groups.index(group))

    def _evaluator(self, placement: Placement, attempt: int) -> Component:
        del attempt  # its episodes are the same in every life
        ports = EvaluatorPorts(
            policy=self._reader(names.policy_board(placement.group)),
            block=self.block(placement.name),
            control=self.control,
            checkpoints=self._paths.checkpoints,
            clock=time.monotonic,
        )
        job = self.plan.job
        network = NetworkSpec.of(self.plan.env, job.algorithm)
        return Evaluator(placement.name, ports, job.evaluation, job.env, network)

    def _producer(self, ring: str) -> Producer:
        return Producer(
            self._resources.segment(ring),
            self.wiring.rings[ring],
            data_ready=self._resources.event(f"{ring}:data"),
            space_ready=self._resources.event(f"{ring}:space"),
        )

    def _consumer(self, ring: str) -> Consumer:
        return Consumer(
            self._resources.segment(ring),
            self.wiring.rings[ring],
            data_ready=self._resources.event(f"{ring}:data"),
            space_ready=self._resources.event(f"{ring}:space"),
        )

    def _reader(self, board: str) -> BoardReader:
        return BoardReader(self._resources.segment(board), self.wiring.boards[board])

    def _reader_events(self, board: str) -> list[EventFd]:
        return [self._resources.event(f"{board}:{reader}") for reader in self.wiring.board_readers[board]]

    def _fds(self, *events: str) -> list[int]:
        return [self._resources.event(event).fileno() for event in events]
