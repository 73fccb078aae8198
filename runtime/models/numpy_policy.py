"""The policy as an actor or evaluator uses it: parameters in, actions out. NumPy only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from runtime.models.distributions import Picks, log_softmax
from runtime.models.dueling import q_values
from runtime.models.mlp import Mlp

if TYPE_CHECKING:
    from runtime.models.arrays import Array, Floats, Ints
    from runtime.models.spec import NetworkSpec


class NumpyPolicy:
    """Acts for up to `batch` environments at once. Legend: B environments, A actions."""

    def __init__(self, spec: NetworkSpec, batch: int, rng: np.random.Generator) -> None:
        self.spec = spec
        self._rng = rng
        self._params = np.zeros(spec.layout.size, np.float32)
        self._net = Mlp(spec, spec.towers[0], self._params, batch)
        self._input = np.zeros((batch, spec.observation_size), np.float32)

    def load(self, params: Floats) -> None:
        """Take over new parameters (flat, copied: one memcpy)."""
        np.copyto(self._params, params)

    def act(
        self, obs_B: Array, action_B: Ints, logits_out_AB: Floats | None = None, epsilon: float | Array = 0.0
    ) -> None:
        """Choose actions into `action_B`.

        Actor-critic: sampled from the softmax; the logits go into `logits_out_AB` where given, for `log_probs_of` later
        on many steps at once. Q: the greedy action, or with probability `epsilon` (one for all, or one per environment)
        any action, uniformly.
        """
        if self.spec.kind == "actor-critic":
            self._sample(obs_B, action_B, logits_out_AB)
        else:
            self._explore(obs_B, action_B, epsilon)

    def greedy(self, obs_B: Array, action_B: Ints | None = None) -> Ints:
        """The best actions by the current parameters, [B]."""
        scores_BA = self.scores(obs_B)
        return np.argmax(scores_BA, axis=1, out=action_B)

    def scores(self, obs_B: Array) -> Floats:
        """Logits or Q values [B, A], valid until the next call."""
        out_BA = self._net.forward(self._flat(obs_B))
        return q_values(out_BA) if self.spec.dueling else out_BA

    def log_probs(self, obs_B: Array, action_B: Ints) -> Floats:
        """Log-probabilities [B] of given actions (actor-critic only)."""
        return Picks(action_B).of(log_softmax(self.scores(obs_B)))

    def _flat(self, obs_B: Array) -> Floats:
        flat = self._input[: len(obs_B)]
        np.copyto(flat, obs_B.reshape(len(obs_B), -1), casting="unsafe")
        return flat

    def _sample(self, obs_B: Array, action_B: Ints, logits_out_AB: Floats | None) -> None:
        logits_AB = self.scores(obs_B).T
        if logits_out_AB is not None:
            logits_out_AB[...] = logits_AB
        # Inverse transform sampling: the action is the number of cumulated weights that lie below a uniform draw from
        # their sum. The last one is left out, so the action is always one that exists. Columns of the logits are
        # contiguous, so running along A is a few operations on whole rows.
        weight_AB = np.exp(logits_AB - np.maximum.reduce(logits_AB, axis=0))
        np.add.accumulate(weight_AB, axis=0, out=weight_AB)
        drawn_B = self._rng.random(len(action_B), dtype=np.float32)
        drawn_B *= weight_AB[-1]
        np.add.reduce(weight_AB[:-1] <= drawn_B, axis=0, out=action_B)

    def _explore(self, obs_B: Array, action_B: Ints, epsilon: float | Array) -> None:
        self.greedy(obs_B, action_B)
        n = len(action_B)
        chance_B, choice_B = self._rng.random((2, n))
        random_B = (choice_B * self.spec.num_actions).astype(np.int64)
        np.copyto(action_B, random_B, where=chance_B < epsilon)
