"""Both engines compute the same network: outputs and gradients agree, and with torch's own modules."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from runtime.contract.algorithm import NetworkConfig
from runtime.models.engine import TORCH_FROM_WIDTH, engine_of, make_network
from runtime.models.spec import NetworkSpec


def spec(activation: str = "tanh") -> NetworkSpec:
    return NetworkSpec("q", 5, 3, (16, 12), activation)  # type: ignore[arg-type]


def by_torch_modules(network: NetworkSpec, params: np.ndarray, x: np.ndarray, delta: np.ndarray):
    """The slow twin: nn.Linear layers, gradients from autograd, in the order of the flat vector."""
    act = torch.nn.Tanh if network.activation == "tanh" else torch.nn.ReLU
    views, layers = network.layout.views(params), []
    for layer in range(network.towers[0].depth):
        weight = torch.from_numpy(views[f"q.{layer}.weight"].copy())
        linear = torch.nn.Linear(weight.shape[0], weight.shape[1])
        linear.weight.data, linear.bias.data = weight.T.contiguous(), torch.from_numpy(views[f"q.{layer}.bias"].copy())
        layers += [linear, act()]
    model = torch.nn.Sequential(*layers[:-1])
    out = model(torch.from_numpy(x))
    out.backward(torch.from_numpy(delta.copy()))
    grads = [part.grad.T if part.ndim == 2 else part.grad for part in model.parameters()]
    return out.detach().numpy(), np.concatenate([grad.numpy().ravel() for grad in grads])


@pytest.mark.parametrize("engine", ["numpy", "torch"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_outputs_and_gradients_are_those_of_torch_modules(engine: str, activation: str) -> None:
    rng, network = np.random.default_rng(1), spec(activation)
    params = network.initial(rng)
    grads = np.full_like(params, np.nan)
    config = NetworkConfig(engine=engine)  # type: ignore[arg-type]
    made = make_network(config, network, network.towers[0], params, 8, grads)
    for rows in (8, 3):
        x = rng.standard_normal((rows, 5)).astype(np.float32)
        delta = np.asfortranarray(rng.standard_normal((rows, 3)).astype(np.float32))
        out, expected_grads = by_torch_modules(network, params, x, delta)
        np.testing.assert_allclose(made.forward(x), out, rtol=1e-5, atol=1e-6)
        made.backward(delta)
        np.testing.assert_allclose(grads, expected_grads, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_a_network_sees_parameters_that_change_in_place(engine: str) -> None:
    network = spec()
    params = network.initial(np.random.default_rng(2))
    config = NetworkConfig(engine=engine)  # type: ignore[arg-type]
    made = make_network(config, network, network.towers[0], params, 4)
    x = np.ones((4, 5), np.float32)
    before = made.forward(x).copy()
    params *= 0.5
    assert not np.allclose(made.forward(x), before)


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_more_rows_than_the_network_was_built_for_are_refused(engine: str) -> None:
    network = spec()
    config = NetworkConfig(engine=engine)  # type: ignore[arg-type]
    made = make_network(config, network, network.towers[0], network.initial(np.random.default_rng(3)), 4)
    with pytest.raises(ValueError, match="5 rows do not fit"):
        made.forward(np.ones((5, 5), np.float32))


def test_wide_networks_go_to_torch_unless_told_otherwise() -> None:
    assert engine_of(NetworkConfig()) == "numpy"
    assert engine_of(NetworkConfig(hidden=(64, TORCH_FROM_WIDTH))) == "torch"
    assert engine_of(NetworkConfig(hidden=(TORCH_FROM_WIDTH,), engine="numpy")) == "numpy"
