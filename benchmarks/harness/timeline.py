"""What one run did, in seconds since the command was started at the prompt."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Timeline:
    """Filled while the run goes; all times count from the moment the process was started."""

    contender: str
    seed: int
    reached: dict[str, float] = field(default_factory=dict)  #: target → seconds
    reached_steps: dict[str, int] = field(default_factory=dict)  #: target → env steps
    first_update_s: float | None = None
    peak_pss_bytes: int = 0
    ended: str = ""  #: `target`, `time limit`, or how it went wrong
    first: tuple[float, int] | None = None  #: first progress seen: (seconds, env steps)
    last: tuple[float, int] | None = None

    def target(self, target: float, seconds: float, env_steps: int) -> None:
        key = f"{target:g}"
        self.reached.setdefault(key, seconds)
        self.reached_steps.setdefault(key, env_steps)

    def progress(self, seconds: float, env_steps: int) -> None:
        if env_steps <= 0:
            return
        if self.first is None:
            self.first = (seconds, env_steps)
        if self.last is None or env_steps > self.last[1]:
            self.last = (seconds, env_steps)

    @property
    def steps_per_s(self) -> float | None:
        """Env steps per second between the first and the last progress seen: start-up not counted."""
        if self.first is None or self.last is None or self.last[0] - self.first[0] < 0.5:
            return None
        return (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "steps_per_s": self.steps_per_s}
