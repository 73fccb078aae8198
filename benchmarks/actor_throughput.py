"""How much of a bare loop's speed an actor keeps: `python benchmarks/actor_throughput.py [--envs 64] [--rounds 61]`.

Bare loop: the native vector environment and the same policy, actions sampled, nothing stored. Actor: the component as
it runs in a group, writing fragments into a shared-memory ring whose consumer gives each back at once. The two
alternate within one process in turns of some 50 ms, so that a busy machine slows both; medians are printed.
"""

# The number of threads must be set before NumPy is imported.

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # as in an actor's own process

import gymnasium
import numpy as np

from runtime.components.actor import Actor, ActorPorts, ActorSettings
from runtime.components.fragments import fragment_layout
from runtime.contract.algorithm import DqnConfig, PpoConfig
from runtime.contract.envspec import EnvSpec
from runtime.contract.job import EnvConfig
from runtime.contract.plan import Sizes
from runtime.contract.states import Dependencies
from runtime.envs.probe import probe
from runtime.memory.block import StatsBlock
from runtime.memory.board import Board, BoardReader, BoardSpec, BoardWriter
from runtime.memory.control import CONTROL_BYTES, ControlBlock
from runtime.memory.eventfd import EventFd
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import Consumer, Producer, Ring, RingSpec
from runtime.memory.segment import Segment
from runtime.models.numpy_policy import NumpyPolicy
from runtime.models.spec import NetworkSpec

ENV = EnvConfig(id="CartPole-v1")
EPSILON = 0.05


class BareLoop:
    """Environment and policy, nothing else."""

    def __init__(self, network: NetworkSpec, params: np.ndarray, num_envs: int) -> None:
        self._env = gymnasium.make_vec(ENV.id, num_envs=num_envs)
        self._policy = NumpyPolicy(network, num_envs, np.random.default_rng(1))
        self._policy.load(params)
        self._explores = network.kind == "q"
        self._action = np.zeros(num_envs, np.int64)
        self._obs, _ = self._env.reset(seed=1)

    def run(self, vector_steps: int) -> None:
        act, step, action, obs = self._policy.act, self._env.step, self._action, self._obs
        for _ in range(vector_steps):
            if self._explores:
                act(obs, action, epsilon=EPSILON)
            else:
                act(obs, action)
            obs = step(action)[0]
        self._obs = obs


class DrivenActor:
    """An actor with a published policy and a consumer that releases at once."""

    def __init__(self, spec: EnvSpec, config: PpoConfig | DqnConfig, params: np.ndarray, sizes: Sizes) -> None:
        ring = RingSpec("fragments.actor-0", fragment_layout(spec, sizes, config.name), sizes.ring_slots)
        fields = (Field("params", "float32", params.shape), Field("progress", "int64", (4,)))
        board = BoardSpec("policy.0", Layout(fields))
        ring_segment = Segment.create(ring.name, ring.nbytes)
        board_segment = Segment.create(board.name, board.nbytes)
        Ring.format(ring_segment, ring)
        Board.format(board_segment, board)
        writer = BoardWriter(board_segment, board)
        writer.begin()["params"][:] = params
        writer.begin()["progress"][:] = 0
        writer.publish(0)
        data, space = EventFd.create(), EventFd.create()
        self.consumer = Consumer(ring_segment, ring, data_ready=data, space_ready=space)
        ports = ActorPorts(
            ring=Producer(ring_segment, ring, data_ready=data, space_ready=space),
            policy=BoardReader(board_segment, board),
            block=StatsBlock(Segment.create("stats", StatsBlock.nbytes(1)), 0),
            control=ControlBlock(Segment.create("control", CONTROL_BYTES)),
            checkpoints=Path(),
            clock=time.perf_counter,
            wait_fds=(),
        )
        settings = ActorSettings(
            env=ENV,
            algorithm=config,
            num_envs=sizes.num_envs,
            rollout=sizes.rollout,
            dependencies=Dependencies.RELAXED,
            run_seed=0,
            index=0,
            attempt=0,
            num_actors=1,
        )
        self._block = ports.block
        self._rollout = sizes.rollout
        self.actor = Actor("actor-0", ports, settings)
        self.actor.start()

    def run(self, vector_steps: int) -> None:
        fragments = 0
        while fragments * self._rollout < vector_steps:
            self._block.beat()  # the driver does so before every tick
            self.actor.tick()
            while (slot := self.consumer.peek()) is not None:
                self.consumer.release(consumed=slot.samples)
                fragments += 1


def sizes_for(num_envs: int, rollout: int) -> Sizes:
    return Sizes(
        num_envs=num_envs,
        rollout=rollout,
        batch_size=num_envs * rollout,
        fragments_per_batch=1,
        buffer_size=num_envs * rollout * 4,
        ring_slots=4,
        batch_slots=2,
        publish_every=1,
        staleness_tolerance=1.0,
        pool_ratio=0.25,
    )


def measure(config: PpoConfig | DqnConfig, num_envs: int, rounds: int, vector_steps: int) -> float:
    """Print one line of medians; returns actor / bare."""
    spec = probe(ENV)
    network = NetworkSpec.of(spec, config)
    params = network.initial(np.random.default_rng(0))
    bare = BareLoop(network, params, num_envs)
    driven = DrivenActor(spec, config, params, sizes_for(num_envs, config.rollout))
    vector_steps -= vector_steps % config.rollout
    rates: dict[str, list[float]] = {"bare": [], "actor": []}
    for turn in range(rounds + 1):
        for name, loop in (("bare", bare), ("actor", driven)):
            began = time.perf_counter()
            loop.run(vector_steps)
            if turn:  # the first round warms caches up
                rates[name].append(num_envs * vector_steps / (time.perf_counter() - began))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ratios = [actor / free for actor, free in zip(rates["actor"], rates["bare"], strict=True)]
    ratio = statistics.median(ratios)
    low, _, high = statistics.quantiles(ratios, n=4)
    sys.stdout.write(
        f"{config.name}: {num_envs} envs, T={config.rollout}: bare {medians['bare'] / 1e3:.0f} k steps/s, "
        f"actor {medians['actor'] / 1e3:.0f} k steps/s, ratio {ratio:.3f} (quartiles {low:.3f} and {high:.3f} over "
        f"{rounds} rounds of {vector_steps} vector steps)\n"
    )
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=61)
    parser.add_argument("--vector-steps", type=int, default=480)
    arguments = parser.parse_args()
    for config in (PpoConfig(name="ppo"), DqnConfig(name="dqn")):
        measure(config, arguments.envs, arguments.rounds, arguments.vector_steps)


if __name__ == "__main__":
    main()
