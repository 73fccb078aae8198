"""The PPO losses and their hand-written gradients, against the formula in torch with autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from runtime.algorithms.ppo.algorithm import standardised
from runtime.algorithms.ppo.loss import policy_loss, value_loss

CLIP = 0.2


def case(seed: int, n: int, actions: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = np.asfortranarray(rng.normal(size=(n, actions)).astype(np.float32))
    return (
        logits, rng.integers(0, actions, n), np.log(rng.uniform(0.05, 0.95, n)).astype(np.float32),
        rng.normal(size=n).astype(np.float32),
    )  # fmt: skip


sizes = st.tuples(st.integers(0, 2**31), st.integers(1, 12), st.integers(2, 10))


@given(sizes, st.sampled_from([0.0, 0.01, 0.5]))
def test_policy_loss_and_gradient_equal_the_formula(size: tuple[int, int, int], entropy: float) -> None:
    logits, action, behaviour, advantage = case(*size)
    found = policy_loss(logits, action, behaviour, advantage, clip=CLIP, entropy=entropy)

    leaf = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    spread = torch.distributions.Categorical(logits=leaf)
    ratio = (spread.log_prob(torch.tensor(action)) - torch.tensor(behaviour, dtype=torch.float64)).exp()
    gain = torch.tensor(advantage, dtype=torch.float64)
    surrogate = torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain)
    loss = -surrogate.mean() - entropy * spread.entropy().mean()
    loss.backward()

    assert found.loss == pytest.approx(loss.item(), rel=1e-4, abs=1e-5)
    assert found.entropy == pytest.approx(spread.entropy().mean().item(), rel=1e-4, abs=1e-6)
    assert found.kl == pytest.approx((ratio - 1 - ratio.log()).mean().item(), rel=1e-3, abs=1e-5)
    assert found.clip_share == pytest.approx(((ratio - 1).abs() > CLIP).double().mean().item())
    assert leaf.grad is not None
    np.testing.assert_allclose(found.grad_NA, leaf.grad.numpy(), rtol=1e-3, atol=1e-5)


@given(sizes, st.sampled_from([None, 0.1, 0.5]))
def test_value_loss_and_gradient_equal_the_formula(size: tuple[int, int, int], clip: float | None) -> None:
    rng = np.random.default_rng(size[0])
    value, target, old = (rng.normal(size=size[1]).astype(np.float32) for _ in range(3))
    found = value_loss(value, target, old, clip=clip)

    leaf = torch.tensor(value, dtype=torch.float64, requires_grad=True)
    target_t, old_t = torch.tensor(target, dtype=torch.float64), torch.tensor(old, dtype=torch.float64)
    square = (leaf - target_t) ** 2
    if clip is not None:
        square = torch.maximum(square, (old_t + (leaf - old_t).clamp(-clip, clip) - target_t) ** 2)
    loss = 0.5 * square.mean()
    loss.backward()

    assert found.loss == pytest.approx(loss.item(), rel=1e-4, abs=1e-6)
    assert leaf.grad is not None
    np.testing.assert_allclose(found.grad_N, leaf.grad.numpy(), rtol=1e-3, atol=1e-5)


def test_a_ratio_far_outside_the_clip_gives_no_gradient_in_the_direction_it_already_went() -> None:
    logits = np.asfortranarray(np.array([[3.0, 0.0]], np.float32))
    behaviour = np.log(np.array([0.5], np.float32))
    better = policy_loss(logits, np.array([0]), behaviour, np.array([1.0], np.float32), clip=CLIP, entropy=0.0)
    worse = policy_loss(logits, np.array([0]), behaviour, np.array([-1.0], np.float32), clip=CLIP, entropy=0.0)
    assert not better.grad_NA.any()
    assert worse.grad_NA[0, 0] > 0.0


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=50))
def test_standardised_values_are_those_of_the_textbook(values: list[float]) -> None:
    array = np.array(values, np.float32)
    exact = array.astype(np.float64)
    expected = (exact - exact.mean()) / (exact.std(ddof=1) + 1e-8)
    if exact.std() > 1e-2:
        np.testing.assert_allclose(standardised(array), expected, rtol=1e-2, atol=1e-2)
    assert np.isfinite(standardised(array)).all()
