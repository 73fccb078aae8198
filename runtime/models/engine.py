"""Which library computes a network: NumPy for small ones, torch for wide ones. Decided once, from the shape alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from runtime.models.mlp import Mlp

if TYPE_CHECKING:
    from runtime.contract.algorithm import NetworkConfig
    from runtime.models.arrays import Floats
    from runtime.models.spec import NetworkSpec, Tower

#: From this width on torch is no slower (`benchmarks/network_engines.py`); below, it costs up to 2.4 times as much.
TORCH_FROM_WIDTH = 1024


class Network(Protocol):
    """A tower that can be evaluated, and trained where it was given gradients to write to."""

    def forward(self, x: Floats) -> Floats:
        """Outputs [N, out] for inputs [N, in], valid until the next call."""

    def backward(self, delta: Floats) -> None:
        """Write the gradients of Σ outputs·delta for the last `forward`."""


def engine_of(config: NetworkConfig) -> Literal["numpy", "torch"]:
    """What `auto` means for this network."""
    if config.engine != "auto":
        return config.engine
    return "torch" if max(config.hidden) >= TORCH_FROM_WIDTH else "numpy"


def make_network(
    config: NetworkConfig, spec: NetworkSpec, tower: Tower, params: Floats, rows: int, grads: Floats | None = None
) -> Network:
    """A network over flat parameters for up to `rows` rows; torch is imported only if it is wanted."""
    if engine_of(config) == "numpy":
        return Mlp(spec, tower, params, rows, grads)
    from runtime.models.torch_mlp import TorchMlp

    return TorchMlp(spec, tower, params, rows, grads)
