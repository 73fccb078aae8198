"""When an actor goes on and when it waits: back-pressure, turns, successors, exploration, checkpoints."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from runtime.components.actor import Actor, ActorSettings
from runtime.components.base import Progress
from runtime.components.fragments import fragment_layout
from runtime.contract.algorithm import DqnConfig
from runtime.contract.envspec import EnvSpec
from runtime.contract.job import EnvConfig
from runtime.contract.states import Dependencies
from runtime.models.numpy_policy import NumpyPolicy
from support.actor_rig import DQN, NUM_ENVS, PPO, ROLLOUT, SLOTS, Rig, fragment_sizes, joined


@pytest.fixture(autouse=True)
def importable_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "envs"))


def test_actor_pauses_when_the_ring_is_full_and_goes_on_without_a_gap(tmp_path: Path) -> None:
    rig = Rig(tmp_path, mode="SameStep")
    rig.publish(0)
    actor = rig.actor()
    for _ in range(SLOTS):
        assert actor.tick() is Progress.WORKED
    assert [actor.tick() for _ in range(3)] == [Progress.IDLE] * 3
    assert rig.ledger.committed == SLOTS
    fragments = [fragment for _ in range(SLOTS) if (fragment := rig.take()) is not None]
    assert actor.tick() is Progress.WORKED
    fragments += rig.play(actor, 2)
    assert len(fragments) == SLOTS + 2
    obs, next_obs = joined(fragments, "obs"), joined(fragments, "next_obs")
    ended = joined(fragments, "terminated") | joined(fragments, "truncated")
    assert np.array_equal(obs[1:][~ended[:-1]], next_obs[:-1][~ended[:-1]])


def test_strict_begins_a_fragment_only_when_its_turn_has_come(tmp_path: Path) -> None:
    rig = Rig(tmp_path, dependencies=Dependencies.STRICT)
    actor = rig.actor()
    assert actor.tick() is Progress.IDLE
    rig.publish(0, turn=0)
    rig.play(actor, 1)
    assert [actor.tick() for _ in range(3)] == [Progress.IDLE] * 3
    rig.publish(1, turn=0)
    assert actor.tick() is Progress.IDLE, "a new version is not yet a new turn"
    rig.publish(2, turn=1)
    assert (rig.play(actor, 1)[0]["version"] == 2).all()
    assert actor.tick() is Progress.IDLE
    rig.publish(2, turn=2)
    assert (rig.play(actor, 1)[0]["version"] == 2).all(), "a turn without an update keeps the version"


def test_strict_keeps_its_policy_to_the_end_of_the_fragment(tmp_path: Path) -> None:
    rig = Rig(tmp_path, dependencies=Dependencies.STRICT)
    rig.clock.pace_s = 1.0
    rig.publish(0)
    actor = rig.actor()
    actor.tick()
    rig.publish(1, turn=1)
    fragments = rig.play(actor, 2)
    assert [set(fragment["version"].tolist()) for fragment in fragments] == [{0}, {1}]


def test_strict_turns_go_on_over_a_restart(tmp_path: Path) -> None:
    rig = Rig(tmp_path, dependencies=Dependencies.STRICT)
    rig.publish(0)
    rig.play(rig.actor(), 1)
    successor = rig.actor(attempt=1)
    assert successor.tick() is Progress.IDLE, "its predecessor's fragment has not been taken yet"
    rig.publish(1, turn=1)
    assert rig.play(successor, 1)[0]["sequence"] == 1


def test_a_killed_actors_successor_goes_on_with_counters_and_loses_only_the_open_fragment(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.clock.pace_s = 1.0
    rig.publish(0)
    first = rig.actor()
    before = rig.play(first, 2)
    for _ in range(ROLLOUT - 1):
        first.tick()  # … and here it is killed
    assert rig.consumer.available == 0
    after = rig.play(rig.actor(attempt=1), 2)
    assert [int(fragment["sequence"]) for fragment in before + after] == [0, 1, 2, 3]
    produced = sum(int(fragment["samples"]) for fragment in before + after)
    assert rig.ledger.produced == rig.block.counter["samples_produced"] == produced
    assert after[0]["obs"][0, :, 1].tolist() == [0.0] * NUM_ENVS, "its environments are new"


def test_streams_differ_by_index_and_attempt_and_repeat_with_both(tmp_path: Path) -> None:
    def life(index: int, attempt: int) -> tuple[bytes, bytes]:
        rig = Rig(tmp_path, env=EnvConfig(id="CartPole-v1"))
        rig.publish(0)
        fragments = rig.play(rig.actor(index, attempt), 3)
        return joined(fragments, "obs").tobytes(), joined(fragments, "action").tobytes()

    lives = [life(index, attempt) for index in (0, 1) for attempt in (0, 1)]
    assert len({obs for obs, _ in lives}) == len({action for _, action in lives}) == 4
    assert life(0, 0) == lives[0]


def test_epsilon_falls_with_the_steps_of_the_whole_run(tmp_path: Path) -> None:
    rig = Rig(tmp_path, mode="SameStep", algorithm=DQN, num_actors=5)
    rig.publish(0)
    actor = rig.actor()
    rig.play(actor, 1)
    assert rig.block.gauge["epsilon"] == pytest.approx(1.0 - 0.9 * ROLLOUT * NUM_ENVS * 5 / 1000)
    rig.publish(1, env_steps=10)
    before = rig.block.gauge["epsilon"]
    rig.play(actor, 1)
    assert rig.block.gauge["epsilon"] == pytest.approx(before - 0.9 * 10 / 1000), "10 + 24·5 steps, 120 known before"
    rig.publish(2, env_steps=5000)
    rig.play(actor, 1)
    assert rig.block.gauge["epsilon"] == pytest.approx(0.1)


def test_epsilon_does_not_rise_when_a_new_version_knows_of_fewer_steps(tmp_path: Path) -> None:
    rig = Rig(tmp_path, mode="SameStep", algorithm=DQN)
    rig.clock.pace_s = 1.0
    rig.publish(0)
    actor = rig.actor()
    for _ in range(ROLLOUT - 1):
        actor.tick()
    rig.publish(1, env_steps=0)
    rig.play(actor, 1)
    assert rig.block.gauge["epsilon"] == pytest.approx(1.0 - 0.9 * (ROLLOUT - 1) * NUM_ENVS / 1000)


def test_without_epsilon_a_q_actor_is_greedy(tmp_path: Path) -> None:
    config = DqnConfig(name="dqn", epsilon_start=0.0, epsilon_end=0.0)
    rig = Rig(tmp_path, algorithm=config)
    rig.publish(3)
    policy = NumpyPolicy(rig.network, NUM_ENVS, np.random.default_rng(0))
    policy.load(rig.params(3))
    for fragment in rig.play(rig.actor(), 3):
        for t in range(ROLLOUT):
            assert np.array_equal(fragment["action"][t], policy.greedy(fragment["obs"][t]))


def test_a_paused_actor_is_idle(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.publish(0)
    actor = rig.actor()
    rig.control.pause = True
    assert actor.tick() is Progress.IDLE
    rig.control.pause = False
    assert actor.tick() is Progress.WORKED


def test_a_checkpoint_request_is_answered_also_while_the_ring_is_full(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.publish(0)
    actor = rig.actor()
    while actor.tick() is Progress.WORKED:
        pass
    rig.control.checkpoint_request = 7
    assert actor.tick() is Progress.IDLE
    assert rig.block.checkpoint_done == 7
    (shard,) = tmp_path.glob("*/actor-0.json")
    saved = json.loads(shard.read_text())
    assert saved["samples_produced"] == rig.ledger.produced and saved["action_stream"]["bit_generator"] == "PCG64"


@pytest.fixture
def endless() -> Iterator[str]:
    def make(num_envs: int, max_episode_steps: int) -> Any:
        assert max_episode_steps == 3
        from counting import CountingEnv

        class Endless(CountingEnv):
            def step(self, action: Any) -> Any:
                self.t += 1 + int(action) * 0
                return self._obs(), 1.0, False, False, {}

        return gymnasium.vector.SyncVectorEnv([Endless] * num_envs)

    gymnasium.register("Endless-v0", entry_point="counting:CountingEnv", vector_entry_point=make, max_episode_steps=3)
    yield "Endless-v0"
    del gymnasium.registry["Endless-v0"]


def test_a_step_limit_that_the_environment_does_not_apply_is_noticed(
    tmp_path: Path, endless: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(tmp_path, env=EnvConfig(id=endless))
    rig.publish(0)
    with caplog.at_level(logging.WARNING):
        rig.play(rig.actor(), 1)
    assert "step limit not applied env=Endless-v0 limit=3 longest=6" in caplog.text


def test_stop_after_a_failed_start_raises_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.env = EnvConfig(id="no_such_module:make")
    with pytest.raises(ValueError, match="no_such_module"):
        rig.actor()
    ports_only = Actor("actor-0", None, ActorSettings(  # type: ignore[arg-type]
        env=rig.env, algorithm=PPO, num_envs=1, rollout=1, dependencies=Dependencies.RELAXED,
        run_seed=0, index=0, attempt=0, num_actors=1,
    ))  # fmt: skip
    ports_only.stop()


def test_the_fragment_layout_has_log_probabilities_only_where_the_algorithm_needs_them() -> None:
    spec = EnvSpec(id="x", observation_shape=(3,), num_actions=2, native_vector=True, autoreset="next-step")
    common = {"obs", "next_obs", "action", "reward", "terminated", "truncated", "valid", "version"}
    assert set(fragment_layout(spec, fragment_sizes(), "dqn").offsets) == common
    assert set(fragment_layout(spec, fragment_sizes(), "ppo").offsets) == common | {"logp"}
