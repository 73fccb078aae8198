"""DQN over flat parameters: one update is one gradient step."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from runtime.algorithms.adam import Adam, clip_scale, norm
from runtime.algorithms.averaging import average_into, track
from runtime.algorithms.base import UpdateReport
from runtime.algorithms.dqn.loss import targets, td_loss
from runtime.algorithms.state import adopt
from runtime.models.dueling import head_gradient, q_values
from runtime.models.engine import make_network

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runtime.contract.algorithm import DqnConfig
    from runtime.models.arrays import Array, Columns, Floats
    from runtime.models.engine import Network
    from runtime.models.spec import NetworkSpec


class Dqn:
    """Deep Q-learning; see `Algorithm`."""

    def __init__(self, config: DqnConfig, spec: NetworkSpec, initial: Floats, *, rows: int) -> None:
        self._config = config
        self._dueling = spec.dueling
        self._params = initial.copy()
        self._target = initial.copy()
        self._grads = np.zeros_like(self._params)
        self._counters = np.zeros(2, np.int64)  # updates, optimiser steps
        self._adam = Adam(self._params, epsilon=1e-8)
        (tower,) = spec.towers
        network = config.network
        self._online_net = make_network(network, spec, tower, self._params, rows, self._grads)
        self._choice_net = make_network(network, spec, tower, self._params, rows)
        self._target_net = make_network(network, spec, tower, self._target, rows)

    @property
    def params(self) -> Floats:
        return self._params

    @property
    def updates(self) -> int:
        return int(self._counters[0])

    def update(
        self, batch: Columns, *, env_steps: int, learning_rate_scale: float, beat: Callable[[], None]
    ) -> UpdateReport:
        del env_steps  # the learning rate has no schedule; ε is the actors' business
        # What overflows is found by the checks for finite numbers, and reported.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._update(batch, learning_rate_scale, beat)

    def _update(self, batch: Columns, learning_rate_scale: float, beat: Callable[[], None]) -> UpdateReport:
        config = self._config
        rate = config.learning_rate * learning_rate_scale
        next_obs = flat_rows(batch["next_obs"])
        next_target = self._q(self._target_net, next_obs)
        next_online = self._q(self._choice_net, next_obs) if config.double else None
        target_N = targets(batch["ret"], batch["discount"], next_target, next_online)
        q = self._q(self._online_net, flat_rows(batch["obs"]))
        td = td_loss(q, batch["action"], target_N, batch["weight"], huber=config.huber_delta)
        beat()
        if not isfinite(td.loss):
            return UpdateReport(finite=False, reason=f"the loss is {td.loss}", diagnostics={"learning_rate": rate})
        self._online_net.backward(head_gradient(td.grad_NA) if self._dueling else td.grad_NA)
        length = norm(self._grads)
        if not isfinite(length):
            reason = f"the gradient's norm is {length}"
            return UpdateReport(finite=False, reason=reason, diagnostics={"learning_rate": rate})
        self._adam.step(self._grads, rate, clip_scale(length, config.max_grad_norm))
        self._counters[0] += 1
        self._refresh_target()
        diagnostics = {"loss": td.loss, "grad_norm": length, "q_mean": float(q.mean()), "learning_rate": rate}
        return UpdateReport(finite=True, diagnostics=diagnostics, priorities=np.abs(td.error_N))

    def state(self) -> dict[str, Array]:
        self._counters[1] = self._adam.steps
        return {
            "params": self._params,
            "adam_mean": self._adam.mean,
            "adam_square": self._adam.square,
            "target": self._target,
            "counters": self._counters,
        }

    def load_state(self, state: Mapping[str, Array]) -> None:
        adopt(self.state(), state)
        self._adam.steps = int(self._counters[1])

    def average_with(self, peers: Sequence[Floats]) -> None:
        average_into(self._params, peers)

    def _q(self, net: Network, obs_NO: Floats) -> Floats:
        out = net.forward(obs_NO)
        return q_values(out) if self._dueling else out

    def _refresh_target(self) -> None:
        if self._config.target_tau is not None:
            track(self._target, self._params, self._config.target_tau)
        elif self.updates % self._config.target_update == 0:
            np.copyto(self._target, self._params)


def flat_rows(obs: Array) -> Floats:
    """[N, *shape] → float32 [N, O]; a view where nothing has to change."""
    return obs.reshape(len(obs), -1).astype(np.float32, copy=False)
