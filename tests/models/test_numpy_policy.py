"""Parameters in one flat vector, their initial values, and acting on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.algorithm import DqnConfig, NetworkConfig, PpoConfig
from runtime.contract.envspec import EnvSpec
from runtime.models.distributions import Picks, column_major, log_probs_of, log_softmax
from runtime.models.dueling import head_gradient, q_values
from runtime.models.numpy_policy import NumpyPolicy
from runtime.models.spec import NetworkSpec

ENV = EnvSpec(id="E", observation_shape=(2, 3), num_actions=4, native_vector=False, autoreset="next-step")


def policy(kind: str, *, batch: int = 512, seed: int = 0, scale: float = 1.0, **changes: Any) -> NumpyPolicy:
    settings = {"name": kind, "network": NetworkConfig(hidden=(16,))} | changes
    spec = NetworkSpec.of(ENV, PpoConfig(**settings) if kind == "ppo" else DqnConfig(**settings))
    made = NumpyPolicy(spec, batch, np.random.default_rng(seed))
    params = spec.initial(np.random.default_rng(seed))
    made.load(params * np.float32(scale))
    return made


def observations(n: int) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(n, 2, 3)).astype(np.float32)


def test_parameters_lie_one_after_another_and_views_write_through() -> None:
    layout = policy("ppo").spec.layout
    flat = np.arange(layout.size, dtype=np.float32)
    views = layout.views(flat)
    np.testing.assert_array_equal(np.concatenate([view.ravel() for view in views.values()]), flat)
    views["value.1.bias"][:] = -1.0
    assert flat[-1] == -1.0
    with pytest.raises(ValueError, match=f"flat vector of {layout.size}"):
        layout.views(flat[1:])


def test_initial_weights_of_an_actor_critic_are_orthogonal_and_its_policy_nearly_uniform() -> None:
    spec = policy("ppo", network=NetworkConfig(hidden=(32, 32))).spec
    views = spec.layout.views(spec.initial(np.random.default_rng(0)))
    square = views["policy.1.weight"]
    np.testing.assert_allclose(square.T @ square, 2.0 * np.eye(32), atol=1e-5)
    wide = views["value.0.weight"]  # [6, 32]: its rows are the short side
    np.testing.assert_allclose(wide @ wide.T, 2.0 * np.eye(6), atol=1e-5)
    assert np.linalg.norm(views["policy.2.weight"], axis=0) == pytest.approx(0.01, abs=1e-6)
    assert not any(view.any() for name, view in views.items() if name.endswith("bias"))


def test_initial_weights_of_a_q_network_lie_within_the_fan_in_bound() -> None:
    spec = policy("dqn").spec
    views = spec.layout.views(spec.initial(np.random.default_rng(0)))
    weight = np.abs(views["q.1.weight"])
    assert 0.2 < weight.max() <= 1.0 / np.sqrt(16) and weight.mean() == pytest.approx(0.125, abs=0.03)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_actions_are_drawn_as_often_as_the_softmax_says(scale: float) -> None:
    acting = policy("ppo", scale=scale)
    obs = np.repeat(observations(1), 512, axis=0)
    count, action = np.zeros(4), np.zeros(512, np.int64)
    for _ in range(40):
        acting.act(obs, action)
        count += np.bincount(action, minlength=4)
    expected = torch.softmax(torch.tensor(acting.scores(obs[:1])[0]), 0).numpy()
    np.testing.assert_allclose(count / count.sum(), expected, atol=0.015)


def test_the_behaviour_log_probability_is_that_of_the_action_taken() -> None:
    acting = policy("ppo", scale=20.0)
    obs, action, logits = observations(6), np.zeros((1, 6), np.int64), np.zeros((1, 4, 6), np.float32)
    acting.act(obs, action[0], logits[0])
    logp = np.zeros((1, 6), np.float32)
    log_probs_of(action, logits, logp)
    spread = torch.distributions.Categorical(logits=torch.tensor(acting.scores(obs)))
    expected = spread.log_prob(torch.tensor(action[0])).numpy()
    np.testing.assert_allclose(logp[0], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(acting.log_probs(obs, action[0]), expected, rtol=1e-4, atol=1e-6)


def test_exploration_takes_any_action_as_often_as_asked_for_in_each_environment() -> None:
    acting = policy("dqn")
    obs = np.repeat(observations(1), 512, axis=0)
    best = int(acting.greedy(obs[:1])[0])
    epsilon = np.where(np.arange(512) < 256, 0.0, 0.8)
    action, other = np.zeros(512, np.int64), np.zeros(4)
    for _ in range(40):
        acting.act(obs, action, epsilon=epsilon)
        assert (action[:256] == best).all()
        other += np.bincount(action[256:], minlength=4)
    expected = np.full(4, 0.2)
    expected[best] += 0.2
    np.testing.assert_allclose(other / other.sum(), expected, atol=0.02)


def test_greedy_actions_have_the_highest_score_and_fit_fewer_rows_than_the_batch() -> None:
    for kind in ("ppo", "dqn"):
        acting, obs = policy(kind, scale=5.0), observations(7)
        np.testing.assert_array_equal(acting.greedy(obs), acting.scores(obs).argmax(axis=1))


def test_a_dueling_head_is_the_value_plus_centred_advantages() -> None:
    acting = policy("dqn", dueling=True)
    scores = acting.scores(observations(5))
    assert scores.shape == (5, 4)
    head = np.array([[2.0, 1.0, 4.0, 1.0]], np.float32)
    np.testing.assert_allclose(q_values(head), [[1.0, 4.0, 1.0]])


def test_the_gradient_at_a_dueling_head_is_that_of_autograd() -> None:
    rng = np.random.default_rng(0)
    grad = rng.normal(size=(6, 4)).astype(np.float32)
    head = torch.zeros(6, 5, requires_grad=True)
    (head[:, :1] + head[:, 1:] - head[:, 1:].mean(1, keepdim=True)).backward(torch.tensor(grad))
    assert head.grad is not None
    np.testing.assert_allclose(head_gradient(grad), head.grad.numpy(), rtol=1e-5, atol=1e-6)


@given(st.integers(1, 9), st.integers(1, 12), st.sampled_from([1.0, 100.0]))
def test_log_probabilities_are_those_of_torch_in_either_memory_order(n: int, actions: int, scale: float) -> None:
    logits = (np.random.default_rng(n).normal(size=(n, actions)) * scale).astype(np.float32)
    expected = torch.log_softmax(torch.tensor(logits), 1).numpy()
    for array in (logits, np.asfortranarray(logits)):
        np.testing.assert_allclose(log_softmax(array), expected, rtol=1e-4, atol=1e-5)


def test_picks_read_and_add_one_element_of_each_row() -> None:
    values, picks = column_major(3, 2), Picks(np.array([1, 0, 1]))
    picks.add_to(values, np.array([1.0, 2.0, 3.0], np.float32))
    assert values.tolist() == [[0, 1], [2, 0], [0, 3]]
    assert picks.of(values).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="column-major"):
        picks.add_to(np.zeros((3, 2), np.float32), np.ones(3, np.float32))


def test_acting_needs_no_torch() -> None:
    import subprocess
    import sys

    code = "import sys, runtime.models.numpy_policy, runtime.algorithms.registry; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
