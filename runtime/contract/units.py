"""Durations as people write them: `30`, `30s`, `1.5m`, `2h`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)")


def seconds(value: object) -> float:
    """Seconds from a number or from text with a unit; ValueError says what was expected."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    else:
        match = _PATTERN.fullmatch(str(value).strip())
        if match is None:
            raise ValueError(f"{value!r} is not a duration: write 30s, 5m, 2h or a number of seconds")
        number = float(match[1]) * _SECONDS[match[2]]
    if not 0 < number < float("inf"):
        raise ValueError(f"{value!r} is not a positive duration")
    return number


Duration = Annotated[float, BeforeValidator(seconds)]
