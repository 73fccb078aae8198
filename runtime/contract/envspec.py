"""What the rest of the system needs to know of an environment."""

from __future__ import annotations

from pydantic import Field

from runtime.contract.model import Document


class EnvSpec(Document):
    """Shapes of one environment: vector observations, discrete actions."""

    id: str
    observation_shape: tuple[int, ...]
    observation_dtype: str = "float32"
    num_actions: int = Field(ge=1)
    native_vector: bool  #: whether the environment brings its own vector entry point
    autoreset: str  #: `next-step`, `same-step` or `disabled`
    max_episode_steps: int | None = None
    slow_step_s: float | None = None  #: seconds for one step of one environment, where that is 0.1 or more

    @property
    def observation_size(self) -> int:
        size = 1
        for side in self.observation_shape:
            size *= side
        return size
