"""Adam over one flat vector (Kingma and Ba 2015), the same arithmetic as `torch.optim.Adam`."""

from __future__ import annotations

from math import isfinite, sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from runtime.models.arrays import Floats


class Adam:
    """Moments of one flat parameter vector; `step` changes the parameters in place, without allocation."""

    def __init__(self, params: Floats, *, beta1: float = 0.9, beta2: float = 0.999, epsilon: float) -> None:
        self.mean = np.zeros_like(params)
        self.square = np.zeros_like(params)
        self.steps = 0
        self._params = params
        self._scratch = np.zeros_like(params)
        self._beta1, self._beta2, self._epsilon = beta1, beta2, epsilon

    def step(self, grads: Floats, learning_rate: float, scale: float = 1.0) -> None:
        """One step along `scale × grads`."""
        self.steps += 1
        scratch, beta1, beta2 = self._scratch, self._beta1, self._beta2
        np.multiply(self.mean, beta1, out=self.mean)
        np.multiply(grads, (1.0 - beta1) * scale, out=scratch)
        np.add(self.mean, scratch, out=self.mean)
        np.multiply(self.square, beta2, out=self.square)
        np.multiply(grads, grads, out=scratch)
        np.multiply(scratch, (1.0 - beta2) * scale * scale, out=scratch)
        np.add(self.square, scratch, out=self.square)
        np.sqrt(self.square, out=scratch)
        # Both bias corrections folded into scalars: p -= lr·(m/c1) / (√v/√c2 + ε)
        correction = sqrt(1.0 - beta2**self.steps)
        np.add(scratch, self._epsilon * correction, out=scratch)
        np.divide(self.mean, scratch, out=scratch)
        np.multiply(scratch, learning_rate * correction / (1.0 - beta1**self.steps), out=scratch)
        np.subtract(self._params, scratch, out=self._params)


def norm(grads: Floats) -> float:
    """Euclidean length; not finite if any element is not (or the square overflows)."""
    return sqrt(total) if isfinite(total := float(np.dot(grads, grads))) else float("nan")


def clip_scale(length: float, limit: float | None) -> float:
    """The factor that brings a gradient of this length within `limit`; 1 where it already is or there is none."""
    return 1.0 if limit is None or length <= limit else limit / (length + 1e-6)
