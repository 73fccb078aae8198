"""How far a host's clock is from the operator's, out of four readings of one exchange."""

from __future__ import annotations

import re

from runtime.contract.model import Document

_COARSE_S = 1.0  #: resolution of a `date` that knows no fractions


class ClockFacts(Document):
    """Seconds; the host's clock is ahead where `offset_s` is positive. The truth lies within ± `uncertainty_s`."""

    offset_s: float
    uncertainty_s: float


class Readings(Document):
    """Seconds since 1970: the operator's clock around the exchange, the host's as it wrote it, first and last thing."""

    sent: float
    first: str
    last: str
    received: float


def parse(readings: Readings | None) -> ClockFacts | None:
    """Offset by the midpoints, as NTP has it (RFC 5905, section 8); None where the host told no time.

    What the host needs between its two readings does not blur the result; half of the rest does.
    """
    if readings is None:
        return None
    first, last = _seconds(readings.first), _seconds(readings.last)
    if first is None or last is None:
        return None
    offset = ((first[0] - readings.sent) + (last[0] - readings.received)) / 2
    on_its_way = (readings.received - readings.sent) - (last[0] - first[0])
    return ClockFacts(offset_s=offset, uncertainty_s=max(on_its_way / 2, 0.0) + first[1] / 2)


def _seconds(text: str) -> tuple[float, float] | None:
    """(seconds, resolution); without fractions, as BusyBox prints it, the middle of the second."""
    match = re.fullmatch(r"(\d+)(?:\.(\d+))?(?:\.?%N|\.N|\.)?", text.strip())
    if match is None:
        return None
    if match[2]:
        return float(f"{match[1]}.{match[2]}"), 0.0
    return int(match[1]) + _COARSE_S / 2, _COARSE_S
