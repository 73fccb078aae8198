"""PPO over flat parameters: advantages once per batch, then epochs of shuffled minibatches."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from runtime.algorithms.adam import Adam, clip_scale, norm
from runtime.algorithms.averaging import average_into
from runtime.algorithms.base import UpdateReport
from runtime.algorithms.ppo.loss import policy_loss, value_loss
from runtime.algorithms.returns import gae, vtrace
from runtime.algorithms.schedules import linear
from runtime.algorithms.state import adopt
from runtime.models.distributions import Picks, log_softmax
from runtime.models.engine import make_network

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runtime.contract.algorithm import PpoConfig
    from runtime.models.arrays import Array, Columns, Floats, Ints
    from runtime.models.engine import Network
    from runtime.models.spec import NetworkSpec

#: Rows of the columns matrix.
_LOGP, _ADVANTAGE, _RETURN, _VALUE = range(4)


class Samples(NamedTuple):
    """The valid cells of a batch, flat: what the epochs draw from. Legend: N samples, O observation size."""

    obs_NO: Floats
    action_N: Ints
    columns: Floats  #: [4, N]: behaviour log-prob, advantage, return, old value

    def shuffled(self, order_N: Ints) -> Samples:
        """All samples in a new order, so that minibatches are slices."""
        return Samples(
            self.obs_NO.take(order_N, axis=0), self.action_N.take(order_N), self.columns.take(order_N, axis=1)
        )

    def part(self, begin: int, end: int) -> Samples:
        return Samples(self.obs_NO[begin:end], self.action_N[begin:end], self.columns[:, begin:end])


class Totals:
    """Sums of the figures of minibatches, for their means."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._count = 0

    def add(self, figures: Mapping[str, float]) -> None:
        self._count += 1
        for name, figure in figures.items():
            self._sums[name] = self._sums.get(name, 0.0) + figure

    def means(self) -> dict[str, float]:
        return {name: total / self._count for name, total in self._sums.items()}


class Ppo:
    """Proximal policy optimisation; see `Algorithm`. One update is one batch with all its epochs."""

    def __init__(
        self, config: PpoConfig, spec: NetworkSpec, initial: Floats, *, rows: int, seed: np.random.SeedSequence
    ) -> None:
        self._config = config
        self._seed = seed
        self._params = initial.copy()
        self._grads = np.zeros_like(self._params)
        self._counters = np.zeros(2, np.int64)  # updates, optimiser steps
        self._adam = Adam(self._params, epsilon=1e-5)
        policy, value = spec.towers
        part_rows = min(rows, 2 * config.minibatch)
        network = config.network
        self._policy = make_network(network, spec, policy, self._params, part_rows, self._grads)
        self._value = make_network(network, spec, value, self._params, part_rows, self._grads)
        self._chunk = 512
        self._predict = make_network(network, spec, value, self._params, self._chunk)
        self._judge = None
        if config.correction == "vtrace":
            self._judge = make_network(network, spec, policy, self._params, self._chunk)

    @property
    def params(self) -> Floats:
        return self._params

    @property
    def updates(self) -> int:
        return int(self._counters[0])

    def update(
        self, batch: Columns, *, env_steps: int, learning_rate_scale: float, beat: Callable[[], None]
    ) -> UpdateReport:
        config = self._config
        schedule = linear(config.learning_rate, config.learning_rate_end, config.learning_rate_decay_steps, env_steps)
        rate = schedule * learning_rate_scale
        totals = Totals()
        try:
            # What overflows or divides by zero is found by the checks for finite numbers.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                samples = self._samples(batch)
                if len(samples.action_N):
                    self._learn(samples, rate, totals, beat)
                    self._counters[0] += 1
        except FloatingPointError as error:
            return UpdateReport(finite=False, reason=str(error), diagnostics={"learning_rate": rate})
        return UpdateReport(finite=True, diagnostics=totals.means() | {"learning_rate": rate})

    def _learn(self, samples: Samples, rate: float, totals: Totals, beat: Callable[[], None]) -> None:
        """All epochs, each in its own order; FloatingPointError where a number is not finite."""
        config, n = self._config, len(samples.action_N)
        # Drawn from the update's number, not from a stream: the order survives a crash and a resume.
        rng = np.random.default_rng((*self._seed.generate_state(2), self.updates))
        bounds = np.linspace(0, n, max(1, round(n / config.minibatch)) + 1).astype(int).tolist()
        for _ in range(config.epochs):
            shuffled = samples.shuffled(rng.permutation(n))
            kl = 0.0
            for begin, end in pairwise(bounds):
                figures = self._step(shuffled.part(begin, end), rate)
                totals.add(figures)
                kl += figures["kl"]
                beat()
            if config.target_kl is not None and kl / (len(bounds) - 1) > 1.5 * config.target_kl:
                return

    def state(self) -> dict[str, Array]:
        self._counters[1] = self._adam.steps
        return {
            "params": self._params,
            "adam_mean": self._adam.mean,
            "adam_square": self._adam.square,
            "counters": self._counters,
        }

    def load_state(self, state: Mapping[str, Array]) -> None:
        adopt(self.state(), state)
        self._adam.steps = int(self._counters[1])

    def average_with(self, peers: Sequence[Floats]) -> None:
        average_into(self._params, peers)

    def _samples(self, batch: Columns) -> Samples:
        """Values by the current value network, advantages, and of all that the valid cells only.

        FloatingPointError where any of it is not finite: better no minibatch than the first few.
        """
        shape_TB = batch["reward"].shape
        obs_TBO = flat_observations(batch["obs"])
        next_TBO = flat_observations(batch["next_obs"])
        valid_TB = batch["valid"]
        value_TB = self._values(obs_TBO.reshape(-1, obs_TBO.shape[-1])).reshape(shape_TB)
        next_value_TB = np.empty(shape_TB, np.float32)
        # Within an episode the successor is the next row's observation: its value is known already.
        next_value_TB[:-1] = value_TB[1:]
        apart_TB = batch["truncated"].copy()
        apart_TB[-1] = True
        next_value_TB[apart_TB] = self._values(next_TBO[apart_TB])
        advantage_TB, target_TB = self._targets(batch, obs_TBO, value_TB, next_value_TB)
        columns = (batch["logp"], advantage_TB, target_TB, value_TB)
        cells = np.flatnonzero(valid_TB)
        samples = Samples(
            obs_TBO.reshape(-1, obs_TBO.shape[-1]).take(cells, axis=0),
            batch["action"].reshape(-1).take(cells),
            np.stack([column.reshape(-1).take(cells) for column in columns]),
        )
        if not (np.isfinite(samples.columns).all() and np.isfinite(samples.obs_NO).all()):
            raise FloatingPointError("the batch, or the values of its observations, are not finite")
        return samples

    def _targets(
        self, batch: Columns, obs_TBO: Floats, value_TB: Floats, next_value_TB: Floats
    ) -> tuple[Floats, Floats]:
        """Advantages, and what the values are trained towards; both [T, B]."""
        gamma, lam = self._config.gamma, self._config.gae_lambda
        ends = (batch["terminated"], batch["truncated"], batch["valid"])
        if self._judge is None:
            advantage_TB = gae(batch["reward"], value_TB, next_value_TB, *ends, gamma=gamma, lam=lam)
            return advantage_TB, advantage_TB + value_TB
        cells = batch["valid"]  # what the others hold need not even be an action
        log_ratio_TB = np.zeros(value_TB.shape, np.float32)
        log_ratio_TB[cells] = self._log_probs(self._judge, obs_TBO[cells], batch["action"][cells])
        log_ratio_TB[cells] -= batch["logp"][cells]
        found = vtrace(batch["reward"], value_TB, next_value_TB, log_ratio_TB, *ends, gamma=gamma, lam=lam)
        return found.advantage_TB, found.target_TB

    def _log_probs(self, judge: Network, obs_NO: Floats, action_N: Ints) -> Floats:
        """log π(a|s) [N] by the policy as it is before this update, in pieces that stay in cache."""
        logp_N = np.empty(len(obs_NO), np.float32)
        for begin in range(0, len(obs_NO), self._chunk):
            part = slice(begin, begin + self._chunk)
            logp_N[part] = Picks(action_N[part]).of(log_softmax(judge.forward(obs_NO[part])))
        return logp_N

    def _values(self, obs_NO: Floats) -> Floats:
        """V [N], in pieces that stay in cache."""
        value_N = np.empty(len(obs_NO), np.float32)
        for begin in range(0, len(obs_NO), self._chunk):
            part = slice(begin, begin + self._chunk)
            value_N[part] = self._predict.forward(obs_NO[part])[:, 0]
        return value_N

    def _step(self, samples: Samples, rate: float) -> dict[str, float]:
        """One minibatch; FloatingPointError where the loss or the gradient is not finite (then nothing has changed)."""
        config, columns = self._config, samples.columns
        advantage_N = columns[_ADVANTAGE]
        if config.normalise_advantage and len(advantage_N) > 1:
            advantage_N = standardised(advantage_N)
        policy = policy_loss(
            self._policy.forward(samples.obs_NO), samples.action_N, columns[_LOGP], advantage_N,
            clip=config.clip, entropy=config.entropy_coefficient,
        )  # fmt: skip
        value = value_loss(
            self._value.forward(samples.obs_NO)[:, 0], columns[_RETURN], columns[_VALUE], clip=config.value_clip
        )
        loss = policy.loss + config.value_coefficient * value.loss
        if not isfinite(loss):
            raise FloatingPointError(f"the loss is {loss}")
        self._policy.backward(policy.grad_NA)
        self._value.backward((value.grad_N * np.float32(config.value_coefficient))[:, None])
        length = norm(self._grads)
        if not isfinite(length):
            raise FloatingPointError(f"the gradient's norm is {length}")
        self._adam.step(self._grads, rate, clip_scale(length, config.max_grad_norm))
        return {
            "loss": loss, "policy_loss": policy.surrogate, "value_loss": value.loss, "entropy": policy.entropy,
            "kl": policy.kl, "clip_share": policy.clip_share, "grad_norm": length,
        }  # fmt: skip


def standardised(values_N: Floats) -> Floats:
    """(x − mean) / standard deviation (of the sample, N − 1)."""
    n = len(values_N)
    centred_N = values_N - np.float32(float(np.add.reduce(values_N)) / n)
    deviation = sqrt(float(np.dot(centred_N, centred_N)) / (n - 1))
    centred_N *= np.float32(1.0 / (deviation + 1e-8))
    return centred_N


def flat_observations(obs: Array) -> Floats:
    """[T, B, *shape] → float32 [T, B, O]; a view where nothing has to change."""
    return obs.reshape(*obs.shape[:2], -1).astype(np.float32, copy=False)
