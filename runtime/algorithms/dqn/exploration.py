"""How much the actors explore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.algorithms.schedules import linear

if TYPE_CHECKING:
    from runtime.contract.algorithm import DqnConfig


def exploration(config: DqnConfig, env_steps: int) -> float:
    """ε after `env_steps` of the whole run."""
    return linear(config.epsilon_start, config.epsilon_end, config.epsilon_steps, env_steps)
