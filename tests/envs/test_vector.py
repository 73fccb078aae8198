"""Transitions are honest in all three autoreset modes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from gymnasium.vector import VectorEnv

from runtime.contract.job import EnvConfig
from runtime.contract.states import Role
from runtime.envs.errors import EnvError
from runtime.envs.vector import VectorStepper, make_vector_env
from runtime.seeding import seed_sequence

MODES = {"NextStep": "next-step", "SameStep": "same-step", "Disabled": "disabled"}
SEED = np.random.SeedSequence(7)
NUM_ENVS = 4


@pytest.fixture(autouse=True)
def importable_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def counting(mode: str, **kwargs: str | int) -> VectorStepper:
    return make_vector_env(EnvConfig(id="counting:vector", kwargs={"mode": mode, **kwargs}), NUM_ENVS, SEED)


@dataclass
class Played:
    obs: np.ndarray
    next_obs: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    valid: np.ndarray


def play(env: VectorStepper, steps: int) -> Played:
    shape = (steps, env.num_envs)
    flags = [np.zeros(shape, np.bool_) for _ in range(3)]
    obs = np.full((*shape, *env.spec.observation_shape), np.nan, np.float32)
    played = Played(obs, np.full_like(obs, np.nan), np.full(shape, np.nan, np.float32), *flags)
    current = env.reset()
    for t in range(steps):
        obs[t] = current
        current = env.step(
            np.zeros(env.num_envs, np.int64),
            next_obs_out=played.next_obs[t],
            reward_out=played.reward[t],
            terminated_out=played.terminated[t],
            truncated_out=played.truncated[t],
            valid_out=played.valid[t],
        )
    return played


@pytest.mark.parametrize("mode", MODES)
def test_next_obs_is_the_true_successor_of_every_valid_step(mode: str) -> None:
    played = play(counting(mode), 60)
    step = played.next_obs - played.obs
    assert played.valid.sum() > 100
    assert np.array_equal(step[played.valid], np.tile([0.0, 0.0, 1.0], (played.valid.sum(), 1)))
    assert np.array_equal(played.reward[played.valid], played.next_obs[played.valid][:, 2])


@pytest.mark.parametrize("mode", MODES)
def test_valid_steps_of_each_environment_are_its_episodes_without_gap_or_repeat(mode: str) -> None:
    played = play(counting(mode), 60)
    for number in range(NUM_ENVS):
        rows = played.obs[:, number][played.valid[:, number]]
        expected = [(number, episode, t) for episode in range(60) for t in range(2 + (number + episode) % 3)][
            : len(rows)
        ]
        assert [tuple(row) for row in rows] == expected


@pytest.mark.parametrize("mode", MODES)
def test_termination_and_truncation_are_kept_apart(mode: str) -> None:
    played = play(counting(mode), 60)
    even = played.obs[..., 1] % 2 == 0
    length = 2 + (played.obs[..., 0] + played.obs[..., 1]) % 3
    last = played.next_obs[..., 2] == length
    assert np.array_equal(played.terminated[played.valid], (last & even)[played.valid])
    assert np.array_equal(played.truncated[played.valid], (last & ~even)[played.valid])
    assert played.terminated.any() and played.truncated.any()


def test_only_next_step_autoreset_has_phantom_steps_and_each_follows_an_end() -> None:
    played = play(counting("NextStep"), 60)
    ended = played.terminated | played.truncated
    assert np.array_equal(~played.valid[1:], ended[:-1]) and played.valid[0].all()
    assert not played.reward[~played.valid].any() and not ended[~played.valid].any()
    assert play(counting("SameStep"), 60).valid.all() and play(counting("Disabled"), 60).valid.all()


@pytest.mark.parametrize("mode", MODES)
def test_the_mode_is_named_in_the_spec(mode: str) -> None:
    assert counting(mode).spec.autoreset == MODES[mode]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float64", "int16"])
def test_other_number_types_are_delivered_as_float32(mode: str, dtype: str) -> None:
    env = counting(mode, dtype=dtype)
    assert env.reset().dtype == np.float32
    played = play(env, 20)
    assert np.array_equal((played.next_obs - played.obs)[played.valid][:, 2], np.ones(played.valid.sum()))


def test_actions_that_start_at_another_number_are_shifted() -> None:
    env = counting("SameStep", start=3)
    play(env, 5)
    assert {action for single in env._env.envs for action in single.seen} == {3}


def test_a_full_reset_forgets_that_episodes_had_ended() -> None:
    env = counting("NextStep")
    play(env, 2)  # environments of length 2 have ended in the second step
    assert play(env, 1).valid.all()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Acrobot-v1"])
def test_streams_differ_by_environment_index_and_attempt(env_id: str) -> None:
    def starts(index: int, attempt: int) -> list[tuple[float, ...]]:
        seed = seed_sequence(5, Role.ACTOR, index, attempt)
        env = make_vector_env(EnvConfig(id=env_id), 3, seed)
        rows = [tuple(row) for row in env.reset().tolist()]
        env.close()
        return rows

    lives = [starts(index, attempt) for index in (0, 1) for attempt in (0, 1)]
    rows = [row for life in lives for row in life]
    assert len(set(rows)) == len(rows) == 12
    assert starts(0, 0) == lives[0]


def test_a_single_environment_factory_is_looped_over() -> None:
    env = make_vector_env(EnvConfig(id="counting:CountingEnv", kwargs={"number": 2}), 3, SEED)
    assert env.num_envs == 3 and not env.spec.native_vector
    assert play(env, 5).obs[0].tolist() == [[2.0, 0.0, 0.0]] * 3


def test_the_native_vector_form_is_preferred_and_keeps_the_step_limit() -> None:
    env = make_vector_env(EnvConfig(id="CartPole-v1", kwargs={"max_episode_steps": 5}), 8, SEED)
    assert env.spec.native_vector and env.spec.max_episode_steps == 5
    played = play(env, 5)
    assert played.truncated[4].all() and not played.truncated[:4].any()


def test_delay_sleeps_once_per_vector_step() -> None:
    env = make_vector_env(EnvConfig(id="CartPole-v1", delay_us=3000), 16, SEED)
    began = time.perf_counter()
    play(env, 10)
    assert time.perf_counter() - began >= 0.030


@pytest.mark.parametrize(
    ("env_id", "words"),
    [
        ("CartPole-v9", "nearest: CartPole-v1"),
        ("cartpol-v1", "nearest: CartPole-v1"),
        ("Pendulum-v1", "Box actions.*Discrete"),
        ("FrozenLake-v1", "Discrete observations.*Flatten"),
        ("no_such_module:make", "cannot import no_such_module.*PYTHONPATH"),
        ("counting:vectr", "no callable vectr; nearest: vector"),
        ("counting:episode_length", "could not be made .TypeError"),
        ("json:dumps", "could not be made|must return a gymnasium.Env"),
    ],
)
def test_unusable_environments_are_refused_with_the_reason_and_a_next_step(env_id: str, words: str) -> None:
    with pytest.raises(EnvError, match=words):
        make_vector_env(EnvConfig(id=env_id), 2, SEED)


def test_a_vector_environment_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(EnvError, match="made 3 sub-environments where 2"):
        make_vector_env(EnvConfig(id="counting:vector", kwargs={"num_envs": 3}), 2, SEED)


def test_a_vector_environment_without_autoreset_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import counting as module

    def silent(num_envs: int) -> VectorEnv:
        env = module.vector(num_envs)
        del env.metadata["autoreset_mode"]
        return env

    monkeypatch.setattr(module, "silent", silent, raising=False)
    with pytest.raises(EnvError, match="autoreset"):
        make_vector_env(EnvConfig(id="counting:silent"), 2, SEED)
