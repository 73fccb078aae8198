"""The causes that an explanation may name, and the words for numbers in its sentences. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """What a person would have to change."""

    SIMULATOR = "simulator"
    NETWORK = "network"
    MEMORY = "memory"
    STALENESS = "staleness"  #: P = batch size / buffer size is bounded
    SIZES = "sizes"  #: a number of the job: environments per actor, batch or buffer
    SHAPE = "shape"
    ELASTIC = "elastic"
    LEARNER_CORES = "learner_cores"
    CORES = "cores"  #: all are taken, and no side limits alone
    ACTORS = "actors"
    LEARNER = "learner"
    RECEIVER = "receiver"
    TURNS = "turns"


@dataclass(frozen=True, slots=True)
class Named:
    """One cause, what the run would gain without it (0: not to be told), and the sentence."""

    cause: Cause
    gain: float
    sentence: str


def counted(word: str, count: int) -> str:
    """`the learner`, `the 3 learners`."""
    return f"the {word}" if count == 1 else f"the {count:,} {word}s"


def plural(count: int) -> str:
    return "" if count == 1 else "s"


def time_of(seconds: float) -> str:
    """`2.3 ms`, `140 µs`: three digits at most."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            value = seconds / size
            return f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
    raise AssertionError


def gib(size: int) -> str:
    """Bytes as `1.25 GiB`."""
    return f"{size / 2**30:.2f} GiB"


def mb(value: float) -> str:
    """Megabytes per second, two digits at least."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
