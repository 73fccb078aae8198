"""Settings of the learning algorithms, one model per algorithm."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from runtime.contract.model import Document

UnitInterval = Annotated[float, Field(ge=0.0, le=1.0)]
HiddenSizes = Annotated[tuple[PositiveInt, ...], Field(min_length=1, max_length=8)]


class NetworkConfig(Document):
    """Multilayer perceptron between observation and heads."""

    hidden: HiddenSizes = (64, 64)
    activation: Literal["tanh", "relu"] = "tanh"
    engine: Literal["auto", "numpy", "torch"] = "auto"  #: what the learner computes it with; auto: torch for wide ones


class PpoConfig(Document):
    """Proximal policy optimisation (Schulman et al. 2017) with separate policy and value networks."""

    name: Literal["ppo"]
    learning_rate: PositiveFloat = 2.5e-3
    learning_rate_end: float = Field(default=0.0, ge=0.0)
    learning_rate_decay_steps: int | None = Field(default=None, gt=0)  #: global env steps to the end rate; off if none
    gamma: UnitInterval = 0.98
    gae_lambda: UnitInterval = 0.9
    #: how samples of an older policy count: as if they were its own, or by V-trace (Espeholt et al. 2018)
    correction: Literal["none", "vtrace"] = "none"
    rollout: PositiveInt = 32  #: T, env steps per fragment
    epochs: PositiveInt = 6
    minibatch: PositiveInt = 256
    clip: PositiveFloat = 0.2
    value_clip: float | None = Field(default=None, gt=0.0)
    value_coefficient: float = Field(default=0.5, ge=0.0)
    entropy_coefficient: float = Field(default=0.0, ge=0.0)
    target_kl: float | None = Field(default=None, gt=0.0)  #: leave the epochs of an update early above 1.5 × this
    normalise_advantage: bool = True
    max_grad_norm: float | None = Field(default=0.5, gt=0.0)
    max_lag: PositiveInt = 8  #: fragments older than this many versions are dropped and counted
    network: NetworkConfig = NetworkConfig()


class ReplayConfig(Document):
    """How transitions are drawn from the replay memory."""

    kind: Literal["uniform", "proportional"] = "uniform"
    alpha: UnitInterval = 0.6
    beta: UnitInterval = 0.4  #: importance exponent at the start
    beta_end: UnitInterval = 1.0
    beta_steps: PositiveInt = 100_000  #: global env steps until `beta_end`
    epsilon: PositiveFloat = 1e-6  #: added to every |TD error|


class DqnConfig(Document):
    """Deep Q-learning (Mnih et al. 2015) with double, dueling, n-step and prioritised replay as switches."""

    name: Literal["dqn"]
    learning_rate: PositiveFloat = 1e-3
    gamma: UnitInterval = 0.99
    rollout: PositiveInt = 16  #: T, env steps per fragment
    n_step: PositiveInt = 3
    double: bool = True
    dueling: bool = False
    target_update: PositiveInt = 200  #: updates between hard copies to the target network
    target_tau: float | None = Field(default=None, gt=0.0, le=1.0)  #: soft update per step instead of hard copies
    learning_starts: PositiveInt = 1_000  #: samples in the replay memory before the first update
    samples_per_insert: PositiveFloat = 8.0  #: samples trained on per sample produced: the pace rule's target
    epsilon_start: UnitInterval = 1.0
    epsilon_end: UnitInterval = 0.02
    epsilon_steps: PositiveInt = 10_000  #: global env steps until `epsilon_end`
    huber_delta: float | None = Field(default=1.0, gt=0.0)  #: squared error if none
    max_grad_norm: float | None = Field(default=10.0, gt=0.0)
    max_lag: int | None = Field(default=None, gt=0)  #: off: replay tolerates any age
    replay: ReplayConfig = ReplayConfig()
    network: NetworkConfig = NetworkConfig(hidden=(128, 128), activation="relu")


AlgorithmConfig = Annotated[PpoConfig | DqnConfig, Field(discriminator="name")]
