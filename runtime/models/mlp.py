"""A multilayer perceptron in NumPy, forward and backward, without allocation once warm.

Why not torch: at the sizes of vector-observation problems (64-unit layers, minibatches of a few hundred) a torch
update spends most of its time on dispatch and autograd bookkeeping, and its import alone takes longer than a short
training. The backward pass below is checked against torch's autograd by the tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from runtime.models.arrays import Floats
    from runtime.models.spec import Activation, NetworkSpec, Tower


class Mlp:
    """One tower over views of flat parameters (and of flat gradients, where it is trained).

    Buffers hold up to `rows` rows and are reused: what `forward` returns is valid until the next call. It is
    column-major (each output's N values lie side by side): sums and maxima over a few outputs are several times faster.
    Legend: N rows, weights [in, out].
    """

    def __init__(self, spec: NetworkSpec, tower: Tower, params: Floats, rows: int, grads: Floats | None = None) -> None:
        views = spec.layout.views(params)
        layers = range(tower.depth)
        self._weights = [views[f"{tower.name}.{layer}.weight"] for layer in layers]
        self._biases = [views[f"{tower.name}.{layer}.bias"] for layer in layers]
        self._weight_grads: list[Floats] = []
        self._bias_grads: list[Floats] = []
        if grads is not None:
            grad_views = spec.layout.views(grads)
            self._weight_grads = [grad_views[f"{tower.name}.{layer}.weight"] for layer in layers]
            self._bias_grads = [grad_views[f"{tower.name}.{layer}.bias"] for layer in layers]
        self._activation: Activation = spec.activation
        hidden = tower.sizes[1:-1]
        self._hidden_full = [np.zeros((rows, width), np.float32) for width in hidden]
        self._head_full = np.zeros(rows * tower.sizes[-1], np.float32)
        trained = hidden if grads is not None else ()
        self._deltas_full = [np.zeros((rows, width), np.float32) for width in trained]
        self._scratch_full = [np.zeros((rows, width), np.float32) for width in trained]
        self._ones_full = np.ones(rows, np.float32)
        self._rows = rows
        self._bound = -1
        self._input: Floats = np.zeros((0, tower.sizes[0]), np.float32)
        self._bind(rows)

    def _bind(self, n: int) -> None:
        """Cut the buffers to `n` rows; slicing them anew on each call would cost as much as a small layer."""
        if n > self._rows:
            raise ValueError(f"{n} rows do not fit the {self._rows} this network was built for")
        width = len(self._biases[-1])
        head = self._head_full[: n * width].reshape(width, n).T
        self._outputs = [*(full[:n] for full in self._hidden_full), head]
        self._deltas = [full[:n] for full in self._deltas_full]
        self._scratch = [full[:n] for full in self._scratch_full]
        self._ones = self._ones_full[:n]
        self._bound = n

    def forward(self, x: Floats) -> Floats:
        """Outputs [N, out] for inputs [N, in]; the last layer is linear."""
        if len(x) != self._bound:
            self._bind(len(x))
        self._input = x
        last = len(self._weights) - 1
        for layer, (weight, bias, out) in enumerate(zip(self._weights, self._biases, self._outputs, strict=True)):
            np.matmul(x, weight, out=out)
            np.add(out, bias, out=out)
            if layer < last:
                if self._activation == "tanh":
                    np.tanh(out, out=out)
                else:
                    np.maximum(out, 0.0, out=out)
            x = out
        return x

    def backward(self, delta: Floats) -> None:
        """Write the gradients of Σ outputs·delta for the last `forward`; `delta` is [N, out]."""
        for layer in range(len(self._weights) - 1, -1, -1):
            below = self._outputs[layer - 1] if layer else self._input
            np.matmul(below.T, delta, out=self._weight_grads[layer])
            np.matmul(self._ones, delta, out=self._bias_grads[layer])
            if layer == 0:
                return
            back, scratch = self._deltas[layer - 1], self._scratch[layer - 1]
            if delta.shape[1] == 1:  # an outer product, which matmul has no fast path for
                np.multiply(delta, self._weights[layer].T, out=back)
            else:
                np.matmul(delta, self._weights[layer].T, out=back)
            if self._activation == "tanh":  # tanh' = 1 - tanh²
                np.multiply(below, below, out=scratch)
                np.subtract(1.0, scratch, out=scratch)
            else:
                np.sign(below, out=scratch)  # below ≥ 0, so this is 1 where the unit was active
            np.multiply(back, scratch, out=back)
            delta = back
