"""What to change when the numbers are out of their bounds, in words for the event log and `status`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

#: Bounds of the share of stale samples (design of the balance rules).
STALE_ABOVE = 0.3
FRESH_BELOW = 0.1


class Rule(StrEnum):
    """Which rule spoke."""

    SHRINK_POOL_RATIO = "shrink-pool-ratio"  #: P is above the tolerance
    MORE_LEARNERS = "more-learners"  #: too many samples are stale when they are used
    LARGER_BATCH = "larger-batch"  #: samples are so fresh that a larger batch is affordable


@dataclass(frozen=True)
class Advice:
    """One rule that applies, with the numbers that made it."""

    rule: Rule
    message: str
    batch_size: int | None = None  #: the batch that would fit
    buffer_size: int | None = None  #: the buffer that would fit


def freshness_advice(
    *, batch_size: int, buffer_size: int, tolerance: float, staleness: float | None
) -> tuple[Advice, ...]:
    """The rules that apply. `staleness` is the share of samples over the lag limit, none where not measured yet."""
    found: list[Advice] = []
    ratio = batch_size / buffer_size
    if ratio > tolerance:
        fitting_batch = max(1, int(tolerance * buffer_size))
        fitting_buffer = ceil(batch_size / tolerance)
        message = (
            f"pool ratio {ratio:.3g} is above the tolerance {tolerance:g}: "
            f"launch it with {_set(batch=fitting_batch)}, or with {_set(buffer=fitting_buffer)}"
        )
        found.append(Advice(Rule.SHRINK_POOL_RATIO, message, fitting_batch, fitting_buffer))
    if staleness is not None and staleness > STALE_ABOVE:
        message = (
            f"{staleness:.0%} of the samples are stale when used: add a learner (tianjictl scale), or use fewer actors"
        )
        found.append(Advice(Rule.MORE_LEARNERS, message))
    elif staleness is not None and staleness < FRESH_BELOW and ratio <= tolerance:
        batch, buffer = 2 * batch_size, ceil(2 * batch_size / ratio)
        message = (
            f"{staleness:.0%} of the samples are stale when used, so a batch of twice the size is affordable: half as "
            "many updates and published versions for the same samples, which pays where the learner is the limit. "
            f"P stays {ratio:.3g} if the job is launched with {_set(batch=batch, buffer=buffer)}"
        )
        found.append(Advice(Rule.LARGER_BATCH, message, batch, buffer))
    return tuple(found)


def _set(*, batch: int | None = None, buffer: int | None = None) -> str:
    """The options of a launch with these sizes: a run keeps its job for good."""
    sizes = (("training.batch_size", batch), ("distributed.buffer_size", buffer))
    return " ".join(f"--set {key}={size}" for key, size in sizes if size is not None)
