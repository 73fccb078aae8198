"""Whole updates of PPO and DQN against plain torch: autograd, one tensor per parameter, `torch.optim.Adam`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from runtime.contract.algorithm import PpoConfig
from runtime.models.spec import NetworkSpec
from support.learning import ENV, config, dqn_batch, make, ppo_batch, update


class TorchTwin:
    """The same networks as a list of separate tensors."""

    def __init__(self, spec: NetworkSpec, params: np.ndarray, learning_rate: float, epsilon: float) -> None:
        self.spec = spec
        self.tensors = {
            name: torch.tensor(view, dtype=torch.float64, requires_grad=True)
            for name, view in spec.layout.views(params.copy()).items()
        }
        self.optimiser = torch.optim.Adam(self.tensors.values(), learning_rate, eps=epsilon)

    def forward(self, tower: str, x: Any, tensors: dict[str, Any] | None = None) -> Any:
        tensors, hidden = tensors or self.tensors, torch.as_tensor(np.asarray(x), dtype=torch.float64)
        for layer in range(len(self.spec.hidden) + 1):
            hidden = hidden @ tensors[f"{tower}.{layer}.weight"] + tensors[f"{tower}.{layer}.bias"]
            if layer < len(self.spec.hidden):
                hidden = torch.tanh(hidden)
        return hidden

    def frozen(self) -> dict[str, Any]:
        return {name: tensor.detach().clone() for name, tensor in self.tensors.items()}

    def step(self, loss: Any, limit: float | None) -> None:
        self.optimiser.zero_grad()
        loss.backward()
        if limit is not None:
            torch.nn.utils.clip_grad_norm_(self.tensors.values(), limit)
        self.optimiser.step()

    def flat(self) -> np.ndarray:
        return np.concatenate([tensor.detach().numpy().ravel() for tensor in self.tensors.values()])


def ppo_loss(twin: TorchTwin, settings: PpoConfig, data: dict[str, np.ndarray]) -> Any:
    """Episode by episode, cell by cell: advantages from the true successor's value, then the clipped objective."""
    value = twin.forward("value", data["obs"])[..., 0].detach().numpy()
    ratio = np.ones(data["reward"].shape)
    if settings.correction == "vtrace":
        now = torch.distributions.Categorical(logits=twin.forward("policy", data["obs"]))
        ratio = np.exp(now.log_prob(torch.tensor(data["action"])).detach().numpy() - data["logp"])
    successor = twin.forward("value", data["next_obs"])[..., 0].detach().numpy()
    steps, width = data["reward"].shape
    advantage, target = np.zeros((2, steps, width))
    for b in range(width):
        carried = 0.0
        for t in reversed(range(steps)):
            if not data["valid"][t, b]:
                carried = 0.0
                continue
            ended = data["terminated"][t, b] or data["truncated"][t, b]
            future = 0.0 if data["terminated"][t, b] else settings.gamma * successor[t, b]
            td = data["reward"][t, b] + future - value[t, b]
            later = 0.0 if ended else settings.gamma * settings.gae_lambda * carried
            advantage[t, b] = td + later
            carried = min(1.0, ratio[t, b]) * (td + later)
            target[t, b] = value[t, b] + carried
    cells = data["valid"]
    gain = torch.tensor(advantage[cells])
    gain = (gain - gain.mean()) / (gain.std() + 1e-8)
    spread = torch.distributions.Categorical(logits=twin.forward("policy", data["obs"][cells]))
    ratio = (spread.log_prob(torch.tensor(data["action"][cells])) - torch.tensor(data["logp"][cells])).exp()
    surrogate = torch.minimum(ratio * gain, ratio.clamp(1 - settings.clip, 1 + settings.clip) * gain).mean()
    value_error = twin.forward("value", data["obs"][cells])[:, 0] - torch.tensor(target[cells])
    return (
        -surrogate
        + settings.value_coefficient * 0.5 * (value_error**2).mean()
        - settings.entropy_coefficient * spread.entropy().mean()
    )


@pytest.mark.parametrize(("entropy", "correction"), [(0.0, "none"), (0.02, "none"), (0.0, "vtrace")])
def test_a_ppo_update_moves_the_parameters_as_plain_torch_does(entropy: float, correction: str) -> None:
    changes: dict[str, Any] = {"epochs": 1, "minibatch": 64, "entropy_coefficient": entropy, "correction": correction}
    settings = config("ppo", **changes)
    assert isinstance(settings, PpoConfig)
    algorithm = make("ppo", **changes)
    twin = TorchTwin(NetworkSpec.of(ENV, settings), algorithm.params, settings.learning_rate, 1e-5)
    for seed in range(4):
        data = ppo_batch(seed)
        if correction == "vtrace":  # half of the actions were likelier before, half less likely
            data["logp"] += np.random.default_rng(seed).choice([-0.7, 0.7], data["logp"].shape).astype(np.float32)
        twin.step(ppo_loss(twin, settings, data), settings.max_grad_norm)
        assert update(algorithm, data).finite
    np.testing.assert_allclose(algorithm.params, twin.flat(), rtol=1e-2, atol=2e-4)


def q(twin: TorchTwin, x: np.ndarray, dueling: bool, tensors: dict[str, Any] | None = None) -> Any:
    head = twin.forward("q", x, tensors)
    if not dueling:
        return head
    return head[:, :1] + head[:, 1:] - head[:, 1:].mean(1, keepdim=True)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("target", [{"target_update": 3}, {"target_tau": 0.1}])
def test_dqn_updates_move_the_parameters_as_plain_torch_does(
    double: bool, dueling: bool, target: dict[str, Any]
) -> None:
    changes = {"double": double, "dueling": dueling, **target}
    settings = config("dqn", **changes)
    algorithm = make("dqn", **changes)
    twin = TorchTwin(NetworkSpec.of(ENV, settings), algorithm.params, settings.learning_rate, 1e-8)
    old = twin.frozen()
    for step in range(1, 6):
        data = dqn_batch(step)
        with torch.no_grad():
            future = q(twin, data["next_obs"], dueling, old)
            best = q(twin, data["next_obs"], dueling).argmax(1) if double else future.argmax(1)
            goal = torch.tensor(data["ret"]) + torch.tensor(data["discount"]) * future[range(32), best]
        taken = q(twin, data["obs"], dueling)[range(32), torch.tensor(data["action"])]
        loss = torch.nn.functional.smooth_l1_loss(taken, goal, reduction="none")
        twin.step((loss * torch.tensor(data["weight"])).mean(), 10.0)
        tau = target.get("target_tau")
        if tau is not None:
            old = {name: old[name] + tau * (new - old[name]) for name, new in twin.frozen().items()}
        elif step % 3 == 0:
            old = twin.frozen()
        report = update(algorithm, data)
        np.testing.assert_allclose(report.priorities, (taken - goal).abs().detach(), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(algorithm.params, twin.flat(), rtol=1e-2, atol=2e-4)
    flat_old = np.concatenate([tensor.numpy().ravel() for tensor in old.values()])
    np.testing.assert_allclose(algorithm.state()["target"], flat_old, rtol=1e-2, atol=2e-4)
