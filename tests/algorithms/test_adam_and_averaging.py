"""The optimiser over one flat vector, gradient clipping, and means of parameters."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from runtime.algorithms.adam import Adam, clip_scale, norm
from runtime.algorithms.averaging import average_into, track
from runtime.algorithms.schedules import linear


def test_flat_steps_equal_torch_adam_over_separate_tensors() -> None:
    rng = np.random.default_rng(0)
    params = rng.normal(size=30).astype(np.float32)
    shapes = [(3, 4), (4,), (2, 7)]
    cuts = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
    tensors = [
        torch.tensor(part.reshape(shape), requires_grad=True)
        for part, shape in zip(np.split(params, cuts), shapes, strict=True)
    ]
    twin, own = torch.optim.Adam(tensors, lr=0.01, eps=1e-5), Adam(params, epsilon=1e-5)
    for _ in range(20):
        grads = rng.normal(size=30).astype(np.float32)
        for tensor, part in zip(tensors, np.split(grads, cuts), strict=True):
            tensor.grad = torch.tensor(part.reshape(tensor.shape))
        torch.nn.utils.clip_grad_norm_(tensors, 1.0)
        twin.step()
        own.step(grads, 0.01, clip_scale(norm(grads), 1.0))
    expected = np.concatenate([tensor.detach().numpy().ravel() for tensor in tensors])
    np.testing.assert_allclose(params, expected, rtol=1e-5, atol=1e-6)


def test_clipping_shortens_long_gradients_and_leaves_short_ones() -> None:
    grads = np.array([3.0, 4.0], np.float32)
    assert norm(grads) == pytest.approx(5.0)
    assert clip_scale(5.0, None) == clip_scale(5.0, 5.0) == 1.0
    assert clip_scale(5.0, 0.5) * 5.0 == pytest.approx(0.5, rel=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_norm_of_a_gradient_that_is_not_finite_is_not_finite(bad: float) -> None:
    assert not np.isfinite(norm(np.array([1.0, bad], np.float32)))


def test_the_mean_is_over_the_own_and_all_finite_peers() -> None:
    params = np.array([0.0, 3.0], np.float32)
    broken = np.array([np.nan, 1.0], np.float32)
    assert average_into(params, [np.array([6.0, 3.0], np.float32), broken, np.array([3.0, 0.0], np.float32)]) == 2
    np.testing.assert_array_equal(params, [3.0, 2.0])
    assert average_into(params, [broken]) == 0
    np.testing.assert_array_equal(params, [3.0, 2.0])


def test_the_shadow_closes_a_fixed_share_of_the_gap() -> None:
    shadow = np.zeros(2, np.float32)
    track(shadow, np.array([1.0, -2.0], np.float32), 0.25)
    np.testing.assert_allclose(shadow, [0.25, -0.5])
    track(shadow, np.array([1.0, -2.0], np.float32), 1.0)
    np.testing.assert_allclose(shadow, [1.0, -2.0])


@pytest.mark.parametrize(("at", "value"), [(-5, 1.0), (0, 1.0), (50, 0.75), (100, 0.5), (10**9, 0.5)])
def test_a_linear_schedule_stays_at_its_ends(at: int, value: float) -> None:
    assert linear(1.0, 0.5, 100, at) == pytest.approx(value)
    assert linear(1.0, 0.5, None, at) == 1.0
