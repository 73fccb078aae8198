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
            f"shrink the batch to {fitting_batch} or grow the buffer to {fitting_buffer}"
        )
        found.append(Advice(Rule.SHRINK_POOL_RATIO, message, fitting_batch, fitting_buffer))
    if staleness is not None and staleness > STALE_ABOVE:
        found.append(Advice(Rule.MORE_LEARNERS, f"{staleness:.0%} of the samples are stale when used: add a learner"))
    elif staleness is not None and staleness < FRESH_BELOW and ratio <= tolerance:
        batch, buffer = 2 * batch_size, ceil(2 * batch_size / ratio)
        message = f"only {staleness:.0%} of the samples are stale: a batch of {batch} with a buffer of {buffer} keeps P"
        found.append(Advice(Rule.LARGER_BATCH, message, batch, buffer))
    return tuple(found)
