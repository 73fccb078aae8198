"""What a policy's networks look like, and where each parameter lies in the one flat vector that is shared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.contract.algorithm import DqnConfig, NetworkConfig, PpoConfig
    from runtime.contract.envspec import EnvSpec
    from runtime.models.arrays import Floats

Kind = Literal["actor-critic", "q"]
Activation = Literal["tanh", "relu"]


@dataclass(frozen=True)
class ParamLayout:
    """Ordered names and shapes of all parameters, packed without gaps into one float32 vector of `size` elements."""

    shapes: Mapping[str, tuple[int, ...]]

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Index of each parameter's first element."""
        offsets, at = {}, 0
        for name, shape in self.shapes.items():
            offsets[name] = at
            at += prod(shape)
        return offsets

    @cached_property
    def size(self) -> int:
        """Number of parameters in total."""
        return sum(prod(shape) for shape in self.shapes.values())

    def views(self, flat: Floats) -> dict[str, Floats]:
        """Each parameter as a view into `flat` (1-D, `size` elements): writing one writes the other."""
        if flat.shape != (self.size,):
            raise ValueError(f"expected a flat vector of {self.size} parameters, got shape {flat.shape}")
        return {
            name: flat[self.offsets[name] : self.offsets[name] + prod(shape)].reshape(shape)
            for name, shape in self.shapes.items()
        }


@dataclass(frozen=True)
class Tower:
    """One multilayer perceptron: `sizes` are the widths from input to output; weights are [in, out]."""

    name: str
    sizes: tuple[int, ...]

    @property
    def depth(self) -> int:
        return len(self.sizes) - 1

    def shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, (inputs, outputs) in enumerate(zip(self.sizes, self.sizes[1:], strict=False)):
            shapes[f"{self.name}.{layer}.weight"] = (inputs, outputs)
            shapes[f"{self.name}.{layer}.bias"] = (outputs,)
        return shapes


@dataclass(frozen=True)
class NetworkSpec:
    """The networks of one policy.

    `actor-critic`: towers `policy` (one logit per action) and `value` (one output). `q`: tower `q` with one output per
    action; with `dueling` it has one more: column 0 is the state's value, the others are advantages.
    """

    kind: Kind
    observation_size: int
    num_actions: int
    hidden: tuple[int, ...]
    activation: Activation
    dueling: bool = False

    @classmethod
    def of(cls, env: EnvSpec, algorithm: PpoConfig | DqnConfig) -> NetworkSpec:
        """The networks that `algorithm` needs for `env`."""
        network: NetworkConfig = algorithm.network
        return cls(
            kind="actor-critic" if algorithm.name == "ppo" else "q",
            observation_size=env.observation_size,
            num_actions=env.num_actions,
            hidden=tuple(network.hidden),
            activation=network.activation,
            dueling=algorithm.name == "dqn" and algorithm.dueling,
        )

    @cached_property
    def towers(self) -> tuple[Tower, ...]:
        widths = (self.observation_size, *self.hidden)
        if self.kind == "actor-critic":
            return (Tower("policy", (*widths, self.num_actions)), Tower("value", (*widths, 1)))
        return (Tower("q", (*widths, self.num_actions + (1 if self.dueling else 0))),)

    @cached_property
    def layout(self) -> ParamLayout:
        return ParamLayout({name: shape for tower in self.towers for name, shape in tower.shapes().items()})

    def initial(self, rng: np.random.Generator) -> Floats:
        """Fresh parameters, flat.

        Actor-critic: orthogonal weights (gain √2, policy head 0.01, value head 1) and zero biases. Q: uniform in
        ±1/√inputs for weights and biases.
        """
        flat = np.zeros(self.layout.size, np.float32)
        views = self.layout.views(flat)
        for tower in self.towers:
            for layer in range(tower.depth):
                weight, bias = views[f"{tower.name}.{layer}.weight"], views[f"{tower.name}.{layer}.bias"]
                if self.kind == "q":
                    bound = 1.0 / np.sqrt(weight.shape[0])
                    weight[:] = rng.uniform(-bound, bound, weight.shape)
                    bias[:] = rng.uniform(-bound, bound, bias.shape)
                elif layer < tower.depth - 1:
                    weight[:] = orthogonal(weight.shape, np.sqrt(2.0), rng)
                else:
                    weight[:] = orthogonal(weight.shape, 0.01 if tower.name == "policy" else 1.0, rng)
        return flat


def orthogonal(shape: tuple[int, ...], gain: float, rng: np.random.Generator) -> Floats:
    """A [rows, columns] matrix whose shorter side is orthonormal, times `gain` (Saxe et al. 2013)."""
    rows, columns = shape
    normal = rng.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(normal)
    q *= np.sign(np.diag(r))  # makes the distribution uniform over orthogonal matrices
    return (gain * (q if rows >= columns else q.T)).astype(np.float32)
