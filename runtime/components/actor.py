"""The actor: steps a vector of environments with the newest policy it has, straight into its ring.

Suffixes: T steps of a fragment, B environments.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.checkpoint.shard import save_shard
from runtime.components.base import Progress
from runtime.components.episodes import EpisodeTracker
from runtime.components.exploration import epsilon_at
from runtime.components.ports import MovingMean
from runtime.components.saving import save_part
from runtime.contract.algorithm import DqnConfig, PpoConfig
from runtime.contract.states import Dependencies, Role
from runtime.envs.vector import make_vector_env
from runtime.models.distributions import log_probs_of
from runtime.models.numpy_policy import NumpyPolicy
from runtime.models.spec import NetworkSpec
from runtime.seeding import seed_sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from runtime.contract.job import EnvConfig
    from runtime.envs.vector import VectorStepper
    from runtime.memory.block import StatsBlock
    from runtime.memory.board import BoardReader
    from runtime.memory.control import ControlBlock
    from runtime.memory.ring import Producer, Slot

_log = logging.getLogger(__name__)

#: A tick ends at the fragment's end or after this long, so that a slow simulator does not silence the heartbeat.
TICK_BUDGET_S = 0.005
_LIMIT_LOOK_EVERY = 64  #: fragments between two looks for a step limit that the environment does not apply
_SPAN_S = 1.0  #: over which `busy_share` is taken
_ENV_STEPS, _TURN = 0, 3  # words of the policy board's `progress`


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorSettings:
    """What job and plan say of this actor."""

    env: EnvConfig
    algorithm: PpoConfig | DqnConfig
    num_envs: int  #: B
    rollout: int  #: T
    dependencies: Dependencies
    run_seed: int
    index: int
    attempt: int  #: which life this is: another attempt draws other random streams
    num_actors: int  #: of the whole run, to estimate its steps between two versions
    stream: dict[str, Any] | None = None  #: where a checkpoint left its random stream; none: a new one


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorPorts:
    """An actor's surroundings. `wait_fds`: space in the ring, and a new policy."""

    ring: Producer
    policy: BoardReader
    block: StatsBlock
    control: ControlBlock
    checkpoints: Path
    clock: Callable[[], float]
    wait_fds: Sequence[int]


class Actor:
    """Fused inference and simulation: no message and no other process between an observation and its action.

    Waits (IDLE) only for a first policy and for space in the ring: a full ring is the back-pressure that bounds how far
    it can be ahead. A slot is committed only when it is full, so a killed actor loses no more than that fragment.

    Which policy: `relaxed` and `policy-only` look at the board before every vector step and act with the newest version
    from that step on. `strict` takes turns: fragment k of this ring (from 0, over all attempts) is begun only when the
    board's turn word, `progress[3]`, is at least k, and keeps the policy of that publication to its end. The learner
    publishes turn k + 1 once it has made every update that the fragments k of all its actors were worth.
    """

    def __init__(self, name: str, ports: ActorPorts, settings: ActorSettings) -> None:
        self.name = name
        self._ports = ports
        self._settings = settings
        self._strict = settings.dependencies is Dependencies.STRICT
        self._dqn = settings.algorithm if isinstance(settings.algorithm, DqnConfig) else None
        self._version = -1
        self._progress = np.zeros(4, np.int64)
        self._steps_since_load = 0
        self._global_steps = 0
        self._slot: Slot | None = None
        self._at = 0  #: steps of the slot that are filled
        self._rows_of: dict[Slot, list[tuple[Any, ...]]] = {}
        self._fragment_s = 0.0
        self._produce_time = MovingMean()
        self._busy_s = 0.0
        self._span_began = 0.0
        self._limit_noticed = False

    def start(self) -> None:
        """Make environments and policy, each with random streams of its own."""
        settings = self._settings
        root = seed_sequence(settings.run_seed, Role.ACTOR, settings.index, settings.attempt)
        env_seed, action_seed = root.spawn(2)
        self._env: VectorStepper = make_vector_env(settings.env, settings.num_envs, env_seed)
        self._rng = np.random.default_rng(action_seed)
        if settings.stream is not None:
            self._rng.bit_generator.state = settings.stream
        network = NetworkSpec.of(self._env.spec, settings.algorithm)
        self._params = np.zeros(network.layout.size, np.float32)
        self._into: dict[str, np.ndarray] = {"params": self._params, "progress": self._progress}
        self._network = NumpyPolicy(network, settings.num_envs, self._rng)
        self._episodes = EpisodeTracker(settings.rollout, settings.num_envs, self._env.reset_steps)
        self._logits_TAB = np.zeros((settings.rollout, network.num_actions, settings.num_envs), np.float32)
        self._obs_B = self._env.reset()
        self._span_began = self._ports.clock()

    def tick(self) -> Progress:
        """At most one fragment, or the steps that fit into the budget."""
        ports = self._ports
        began = ports.clock()
        request = ports.control.checkpoint_request
        if request > ports.block.checkpoint_done:
            save_part(self, ports.checkpoints, request, ports.block)
            ports.block.checkpoint_done = request
        slot = self._slot
        if slot is None:
            slot = self._slot = None if ports.control.pause else self._next_slot()
            if slot is None:
                self._account(began, began)
                return Progress.IDLE
        self._fill(slot, began + TICK_BUDGET_S)
        if self._at == self._settings.rollout:
            self._finish(slot)
        now = ports.clock()
        self._fragment_s += now - began
        if self._slot is None:
            self._produce_time.update(self._fragment_s)
            ports.block.set("t_sp_s", self._produce_time.value)
            self._fragment_s = 0.0
        self._account(began, now)
        return Progress.WORKED

    def _next_slot(self) -> Slot | None:
        """Space in the ring and leave to use it, else None."""
        slot = self._ports.ring.acquire()
        if slot is None:
            return None
        if self._strict:
            if self._progress[_TURN] < slot.sequence or self._version < 0:
                self._load()
                if self._progress[_TURN] < slot.sequence:
                    return None
        elif self._ports.policy.version != self._version:
            self._load()
        return slot if self._version >= 0 else None

    def _load(self) -> None:
        """Take over the newest publication; none yet leaves everything as it is."""
        version = self._ports.policy.read(self._into)
        if version is None:
            return
        self._version = version
        self._network.load(self._params)
        self._steps_since_load = 0

    def _fill(self, slot: Slot, deadline: float) -> None:
        """The hot loop: everything it touches in a step is a local name or a view made once per slot."""
        rows = self._rows_of.get(slot) or self._make_rows(slot)
        policy, clock = self._ports.policy, self._ports.clock
        act, step, explores = self._network.act, self._env.step, self._dqn is not None
        version_T, version, obs_B = slot.fields["version"], self._version, self._obs_B
        follows = not self._strict
        at, end = self._at, self._settings.rollout
        while at < end:
            if follows and policy.version != version:
                self._load()
                version = self._version
            obs_out, action_B, logits_AB, next_obs, reward_B, terminated_B, truncated_B, valid_B = rows[at]
            obs_out[...] = obs_B
            if explores:
                act(obs_out, action_B, None, self._epsilon())
            else:
                act(obs_out, action_B, logits_AB)
            obs_B = step(
                action_B,
                next_obs_out=next_obs,
                reward_out=reward_B,
                terminated_out=terminated_B,
                truncated_out=truncated_B,
                valid_out=valid_B,
            )
            version_T[at] = version
            at += 1
            if clock() >= deadline:
                break
        self._at, self._obs_B = at, obs_B

    def _make_rows(self, slot: Slot) -> list[tuple[Any, ...]]:
        """Views of every step of a slot: indexing anew at each step would cost as much as writing it."""
        fields = slot.fields
        names = ("next_obs", "reward", "terminated", "truncated", "valid")
        columns = (fields["obs"], fields["action"], self._logits_TAB, *(fields[name] for name in names))
        rows = self._rows_of[slot] = list(zip(*columns, strict=True))
        return rows

    def _epsilon(self) -> float:
        """ε of this step, by the run's steps: what the board says plus what all actors are likely to have added."""
        assert self._dqn is not None
        self._steps_since_load += self._settings.num_envs
        estimate = int(self._progress[_ENV_STEPS]) + self._steps_since_load * self._settings.num_actors
        if estimate > self._global_steps:  # a new version counts only what has been taken in: never go back for that
            self._global_steps = estimate
        return epsilon_at(self._dqn, self._global_steps)

    def _finish(self, slot: Slot) -> None:
        """Commit the full slot and count what is in it."""
        fields, block, ring = slot.fields, self._ports.block, self._ports.ring
        valid_TB = fields["valid"]
        if self._dqn is None:
            log_probs_of(fields["action"], self._logits_TAB, fields["logp"])
        finished = self._episodes.add(fields["reward"], fields["terminated"] | fields["truncated"], valid_TB)
        ring.commit(int(np.count_nonzero(valid_TB)))
        self._slot, self._at = None, 0
        # Set, not added: the ring is the truth, also where a predecessor was killed between its commit and its count.
        block.set("env_steps", ring.cumulative_samples)
        block.set("samples_produced", ring.cumulative_samples)
        block.set("fragments", slot.sequence + 1)
        if finished.returns:
            block.add_episodes(finished.returns, finished.lengths)
        if self._dqn is not None:
            block.set("epsilon", epsilon_at(self._dqn, self._global_steps))
        if slot.sequence % _LIMIT_LOOK_EVERY == 0:
            self._notice_step_limit()

    def _notice_step_limit(self) -> None:
        limit = self._env.spec.max_episode_steps
        if limit is not None and not self._limit_noticed and self._episodes.longest > limit:
            self._limit_noticed = True
            _log.warning(
                "step limit not applied env=%s limit=%d longest=%d", self._env.spec.id, limit, self._episodes.longest
            )

    def _account(self, began: float, now: float) -> None:
        self._busy_s += now - began
        span = now - self._span_began
        if span >= _SPAN_S:
            self._ports.block.set("busy_share", self._busy_s / span)
            self._busy_s, self._span_began = 0.0, now

    def save(self, folder: Path) -> None:
        """The state of the action stream and where this actor stands; environments begin anew after a resume."""
        settings = self._settings
        save_shard(
            folder,
            self.name,
            {},
            {
                "run_seed": settings.run_seed,
                "index": settings.index,
                "attempt": settings.attempt,
                "samples_produced": self._ports.ring.cumulative_samples,
                "action_stream": self._rng.bit_generator.state,
            },
        )

    def stop(self) -> None:
        """Close the environments; a half-filled slot is simply never committed."""
        self._slot = None
        env = getattr(self, "_env", None)  # stop is also called when start has failed
        if env is not None:
            env.close()

    def waits(self) -> Sequence[int]:
        return self._ports.wait_fds
