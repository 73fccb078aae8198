"""How a peer says what it has reached: one line on stdout, at once. The harness puts the time to it on arrival.

`REACHED <target> <env steps>`: the mean return of the last 100 training episodes is at the target for the first time.
`STEPS <env steps>`: training has come this far (at most five times a second; throughput is read off these lines).
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

WINDOW = 100
REPORT_EVERY_S = 0.2


class Milestones:
    """Follows the returns of training episodes and prints each target as it is reached."""

    def __init__(self, targets: Iterable[float]) -> None:
        self._waiting = sorted(targets)
        self._returns: deque[float] = deque(maxlen=WINDOW)
        self._last_report = 0.0

    @property
    def done(self) -> bool:
        """Whether the highest target has been reached."""
        return not self._waiting

    def episode(self, episode_return: float, env_steps: int) -> None:
        """Count one ended training episode; `env_steps` are those taken so far in the whole run."""
        self._returns.append(episode_return)
        if len(self._returns) < WINDOW:
            return
        mean = sum(self._returns) / WINDOW
        while self._waiting and mean >= self._waiting[0]:
            print(f"REACHED {self._waiting.pop(0):g} {env_steps}", flush=True)

    def steps(self, env_steps: int) -> None:
        """Say how far training has come."""
        now = time.monotonic()
        if now - self._last_report >= REPORT_EVERY_S:
            self._last_report = now
            print(f"STEPS {env_steps}", flush=True)


def options(description: str) -> argparse.ArgumentParser:
    """The options that every peer takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", type=float, nargs="+", default=[300.0, 475.0])
    return parser
