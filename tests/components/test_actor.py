"""What an actor produces: every step once, stamped, counted, with the right log-probabilities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from runtime.components.base import Progress
from runtime.models.numpy_policy import NumpyPolicy
from support.actor_rig import NUM_ENVS, ROLLOUT, Rig, joined

MODES = ["NextStep", "SameStep", "Disabled"]


@pytest.fixture(autouse=True)
def importable_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "envs"))


def test_an_actor_waits_for_a_first_policy_and_acts_with_whatever_version_that_is(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    actor = rig.actor()
    assert [actor.tick() for _ in range(3)] == [Progress.IDLE] * 3
    rig.publish(41)
    assert (rig.play(actor, 1)[0]["version"] == 41).all()


@pytest.mark.parametrize("mode", MODES)
def test_fragments_hold_every_step_of_every_episode_once_with_its_true_successor(tmp_path: Path, mode: str) -> None:
    rig = Rig(tmp_path, mode=mode)
    rig.publish(0)
    fragments = rig.play(rig.actor(), 12)
    valid, obs, next_obs = (joined(fragments, name) for name in ("valid", "obs", "next_obs"))
    assert all(fragment["samples"] == fragment["valid"].sum() for fragment in fragments)
    for env in range(NUM_ENVS):
        rows = [tuple(row) for row in obs[valid[:, env], env]]
        episodes = [(env, episode, t) for episode in range(len(rows)) for t in range(2 + (env + episode) % 3)]
        assert rows == episodes[: len(rows)]
        assert [tuple(row) for row in next_obs[valid[:, env], env]] == [(e, n, t + 1) for e, n, t in rows]
    assert valid.all() == (mode != "NextStep")


@pytest.mark.parametrize("mode", MODES)
def test_returns_and_lengths_of_episodes_are_right_also_across_fragments(tmp_path: Path, mode: str) -> None:
    rig = Rig(tmp_path, mode=mode)
    rig.publish(0)
    fragments = rig.play(rig.actor(), 10)
    ended = (joined(fragments, "terminated") | joined(fragments, "truncated")) & joined(fragments, "valid")
    lengths = joined(fragments, "next_obs")[ended][:, 2].astype(int)
    _, episodes = rig.block.episodes_since(0)
    expected = sorted((length * (length + 1) / 2, length) for length in lengths.tolist())
    assert sorted(episodes) == expected and len(expected) > 40
    assert rig.block.counter["episodes"] == len(expected)


def test_counters_follow_the_ring(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.publish(0)
    fragments = rig.play(rig.actor(), 5)
    produced = sum(int(fragment["samples"]) for fragment in fragments)
    assert produced < 5 * ROLLOUT * NUM_ENVS, "reset steps are no samples"
    assert rig.block.counter["samples_produced"] == rig.block.counter["env_steps"] == produced == rig.ledger.produced
    assert rig.block.counter["fragments"] == 5


def test_a_new_version_is_used_from_the_next_step_on_and_stamped_there(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.clock.pace_s = 1.0
    rig.publish(1)
    actor = rig.actor()
    for _ in range(2):
        actor.tick()
    rig.publish(2)
    fragment = rig.play(actor, 1)[0]
    assert fragment["version"].tolist() == [1, 1, 2, 2, 2, 2]


def test_a_slow_simulator_gets_one_step_in_each_tick(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.publish(0)
    actor = rig.actor()
    rig.clock.pace_s = 1.0
    for _ in range(ROLLOUT - 1):
        assert actor.tick() is Progress.WORKED
    assert rig.take() is None
    actor.tick()
    assert rig.take() is not None
    assert rig.block.gauge["t_sp_s"] > 0.0 and 0.0 < rig.block.gauge["busy_share"] <= 1.0


def test_log_probabilities_are_those_of_the_version_that_acted(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.clock.pace_s = 1.0
    rig.publish(1)
    actor = rig.actor()
    for _ in range(3):
        actor.tick()
    rig.publish(2)
    fragment = rig.play(actor, 1)[0]
    policy = NumpyPolicy(rig.network, NUM_ENVS, np.random.default_rng(0))
    for t in range(ROLLOUT):
        policy.load(rig.params(int(fragment["version"][t])))
        expected = policy.log_probs(fragment["obs"][t], fragment["action"][t])
        np.testing.assert_allclose(fragment["logp"][t], expected, rtol=1e-5, atol=1e-6)
    assert set(fragment["version"].tolist()) == {1, 2}
