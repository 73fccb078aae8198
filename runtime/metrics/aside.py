"""A sink that may take its time, or fail: it works in a thread of its own, and the caller never waits for it."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.metrics.sinks import MetricSink

log = logging.getLogger(__name__)

MOST_WAITING = 240  #: points that wait for a slow sink; then the oldest go
CLOSE_WITHIN_S = 10.0  #: how long the end of a run waits for what is left


class Aside:
    """A `MetricSink` in front of another, which `open_sink` makes with the first point.

    Whatever goes wrong over there (no network, a full disk, a wrong key) is logged once, and the sink given up.
    """

    def __init__(
        self,
        name: str,
        open_sink: Callable[[], MetricSink],
        *,
        most_waiting: int = MOST_WAITING,
        close_within_s: float = CLOSE_WITHIN_S,
    ) -> None:
        """`name` stands in the log."""
        self._name = name
        self._open_sink = open_sink
        self._close_within_s = close_within_s
        self._waiting: deque[tuple[int, dict[str, float], float]] = deque(maxlen=most_waiting)
        self._news = threading.Condition()
        self._closing = False
        self._given_up = False
        self._thread: threading.Thread | None = None
        self.dropped = 0  #: points that nobody will see

    def write(self, step: int, values: Mapping[str, float], *, time_s: float) -> None:
        """Never waits and never fails."""
        with self._news:
            if self._given_up or self._closing:
                return
            if len(self._waiting) == self._waiting.maxlen:
                self.dropped += 1
                if self.dropped & (self.dropped - 1) == 0:  # the first, and then ever more rarely
                    log.warning("metrics.dropped sink=%s points=%d: it is too slow", self._name, self.dropped)
            self._waiting.append((step, dict(values), time_s))
            self._news.notify()
        if self._thread is None:
            # A daemon: a sink that hangs must not keep the process from leaving.
            self._thread = threading.Thread(target=self._work, name=f"metrics-{self._name}", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wait a while for what is left."""
        with self._news:
            self._closing = True
            self._news.notify()
        if self._thread is None:
            return
        self._thread.join(self._close_within_s)
        if self._thread.is_alive():
            log.warning(
                "metrics.unfinished sink=%s points=%d: not taken within %g s",
                self._name,
                len(self._waiting),
                self._close_within_s,
            )

    def _work(self) -> None:
        try:
            sink = self._open_sink()
            while (point := self._next()) is not None:
                step, values, time_s = point
                sink.write(step, values, time_s=time_s)
            sink.close()
        except Exception as error:  # foreign clients raise what they like, and none of it may end a training
            log.error("metrics.given-up sink=%s error=%s: %s", self._name, type(error).__name__, str(error)[:500])
            with self._news:
                self._given_up = True
                self._waiting.clear()

    def _next(self) -> tuple[int, dict[str, float], float] | None:
        """The oldest point that waits; none when all are taken and no more will come."""
        with self._news:
            while not self._waiting and not self._closing:
                self._news.wait()
            return self._waiting.popleft() if self._waiting else None
