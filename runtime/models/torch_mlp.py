"""A multilayer perceptron in torch, behind the face of `mlp.Mlp`: same parameters, same gradients, other engine.

For wide networks, where the matrix products outweigh the price of dispatch and autograd. Parameters and gradients stay
in the caller's NumPy vectors; torch looks at the same memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from runtime.models.arrays import Floats
    from runtime.models.spec import NetworkSpec, Tower


class TorchMlp:
    """One tower. What `forward` returns is valid until the next call; `backward` is for that `forward` only."""

    def __init__(self, spec: NetworkSpec, tower: Tower, params: Floats, rows: int, grads: Floats | None = None) -> None:
        names = [f"{tower.name}.{layer}.{kind}" for layer in range(tower.depth) for kind in ("weight", "bias")]
        views = spec.layout.views(params)
        self._leaves = [torch.from_numpy(views[name]).requires_grad_(grads is not None) for name in names]
        grad_views = spec.layout.views(grads) if grads is not None else {}
        self._grads = [torch.from_numpy(grad_views[name]) for name in names] if grads is not None else []
        self._activation = torch.tanh if spec.activation == "tanh" else torch.relu
        self._rows = rows
        self._out = torch.zeros(0)

    def forward(self, x: Floats) -> Floats:
        """Outputs [N, out], column-major as in `Mlp`, for inputs [N, in]; the last layer is linear."""
        if len(x) > self._rows:
            raise ValueError(f"{len(x)} rows do not fit the {self._rows} this network was built for")
        hidden = torch.from_numpy(x)
        with torch.set_grad_enabled(bool(self._grads)):
            for layer in range(0, len(self._leaves), 2):
                hidden = torch.addmm(self._leaves[layer + 1], hidden, self._leaves[layer])
                if layer + 2 < len(self._leaves):
                    hidden = self._activation(hidden)
        self._out = hidden
        return np.asfortranarray(hidden.detach().numpy())

    def backward(self, delta: Floats) -> None:
        """Write the gradients of Σ outputs·delta for the last `forward`; `delta` is [N, out]."""
        found = torch.autograd.grad(self._out, self._leaves, torch.from_numpy(delta))
        for gradient, target in zip(found, self._grads, strict=True):
            target.copy_(gradient)
