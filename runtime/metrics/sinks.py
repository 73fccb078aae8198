"""Where a run's numbers go: one `write(step, values)`, any number of places. Nothing else knows the places."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Protocol

from runtime.contract.files import append_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

log = logging.getLogger(__name__)


class MetricSink(Protocol):
    """A place for numbers. One thread calls it."""

    def write(self, step: int, values: Mapping[str, float], *, time_s: float) -> None:
        """Record finite `values` at global env step `step`; `time_s` is Unix time. Steps never go back in a run."""

    def close(self) -> None:
        """Make everything written durable enough to read, and let go."""


class JsonLines:
    """One JSON object a line: `{"step": …, "time": …, <name>: <value>, …}`; goes on in an existing file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, step: int, values: Mapping[str, float], *, time_s: float) -> None:
        append_line(self._path, json.dumps({"step": step, "time": round(time_s, 3), **values}))

    def close(self) -> None:
        """Nothing is held open."""


class Thinned:
    """Passes on every point at first, and then ever fewer, down to one a minute: a month must not fill a disk.

    The distance of two points is a 600th of the time since the first; the newest point is never lost.
    """

    LARGEST_S = 60.0
    SHARE = 1 / 600

    def __init__(self, sink: MetricSink) -> None:
        self._sink = sink
        self._began_s: float | None = None
        self._passed_s = 0.0
        self._held: tuple[int, dict[str, float], float] | None = None

    def write(self, step: int, values: Mapping[str, float], *, time_s: float) -> None:
        if self._began_s is None:
            self._began_s, self._passed_s = time_s, float("-inf")
        distance = min(self.LARGEST_S, (time_s - self._began_s) * self.SHARE)
        if 0.0 <= time_s - self._passed_s < distance:
            self._held = step, dict(values), time_s
            return
        self._held, self._passed_s = None, time_s
        self._sink.write(step, values, time_s=time_s)

    def close(self) -> None:
        if self._held is not None:
            step, values, time_s = self._held
            self._sink.write(step, values, time_s=time_s)
        self._sink.close()


class FanOut:
    """Writes to all of `sinks`; one that fails (full disk) is given up with an error in the log, the rest go on."""

    def __init__(self, sinks: Sequence[MetricSink]) -> None:
        self._sinks = list(sinks)

    def write(self, step: int, values: Mapping[str, float], *, time_s: float) -> None:
        for sink in tuple(self._sinks):
            try:
                sink.write(step, values, time_s=time_s)
            except OSError as error:
                log.error("metrics.given-up sink=%s error=%s", type(sink).__name__, error)
                self._sinks.remove(sink)

    def close(self) -> None:
        for sink in self._sinks:
            try:
                sink.close()
            except OSError as error:
                log.error("metrics.unclosed sink=%s error=%s", type(sink).__name__, error)
