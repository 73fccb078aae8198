"""How an agent whose coordinator is gone for good takes its leave: a last checkpoint, then everybody leaves. Pure.

Only on nodes other than the head. There the agent starts another coordinator, and the forkserver does this for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.control.component_life import Life


class Farewell(Enum):
    """What is next."""

    WRITE = auto()  #: shards are still being written
    STOP = auto()  #: all that will be written has been: components may leave
    GO = auto()  #: nobody is left


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """The step that was asked for, when, and how long its shards are waited for."""

    step: int
    began_at: float
    limit_s: float

    def next(self, lives: Mapping[str, Life], done: Mapping[str, int], *, stopping: bool, now: float) -> Farewell:
        """`done`: newest shard of each component that has one to write. `stopping`: components were told to leave."""
        if stopping:
            return Farewell.GO if all(life.over for life in lives.values()) else Farewell.STOP
        missing = [name for name, step in done.items() if step < self.step and not lives[name].over]
        if missing and now - self.began_at < self.limit_s:
            return Farewell.WRITE
        return Farewell.STOP
