"""How often a Q-learning actor tries something else than its best action."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.contract.algorithm import DqnConfig


def epsilon_at(config: DqnConfig, env_steps: int) -> float:
    """ε after `env_steps` environment steps of the whole run: linear from start to end, then constant."""
    share = min(1.0, env_steps / config.epsilon_steps)
    return config.epsilon_start + share * (config.epsilon_end - config.epsilon_start)
