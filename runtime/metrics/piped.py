"""A sink that may take its time, hang or fail: a process of its own, fed through a pipe that nobody waits for."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from runtime.contract.waiting import wait_writable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

log = logging.getLogger(__name__)

MOST_WAITING = 1 << 20  #: bytes that wait for a slow sink, some minutes of points; then new ones are dropped
_LOOK_EVERY_S = 0.02
CLOSE_WITHIN_S = 20.0  #: how long the end of a run waits for what is left


class Piped:
    """A `MetricSink` that writes JSON lines to the standard input of `command`, as `JsonLines` writes them.

    The process is started with the first point, and told by the end of its input to finish. Should it end sooner, that
    is logged once and the sink given up; what it has to say goes to our standard error.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        most_waiting: int = MOST_WAITING,
        close_within_s: float = CLOSE_WITHIN_S,
    ) -> None:
        """`name` stands in the log."""
        self._name = name
        self._command = tuple(command)
        self._most_waiting = most_waiting
        self._close_within_s = close_within_s
        self._waiting = bytearray()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: int | None = None
        self.given_up = False
        self.dropped = 0  #: points that nobody will see

    def write(self, step: int, values: Mapping[str, float], *, time_s: float) -> None:
        """Never waits. OSError where the process cannot be started."""
        if self.given_up:
            return
        line = json.dumps({"step": step, "time": round(time_s, 3), **values}).encode() + b"\n"
        if len(self._waiting) + len(line) > self._most_waiting:
            self.dropped += 1
            if self.dropped & (self.dropped - 1) == 0:  # the first, and then ever more rarely
                log.warning("metrics.dropped sink=%s points=%d: it is too slow", self._name, self.dropped)
        else:
            self._waiting += line
        self._push(self._pipe if self._pipe is not None else self._start())

    def close(self) -> None:
        """Pass on what waits and let the process finish, all within `close_within_s`; then end it."""
        process, self._process = self._process, None
        if process is None:
            return
        end = time.monotonic() + self._close_within_s
        while self._pipe is not None and self._waiting and (left := end - time.monotonic()) > 0:
            wait_writable(self._pipe, left)
            self._push(self._pipe)
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        self._see_out(process, end)

    def _start(self) -> int:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writer, False)
        try:
            # A group of its own: what it starts ends with it.
            self._process = subprocess.Popen(self._command, stdin=reader, stdout=subprocess.DEVNULL, process_group=0)
        except BaseException:
            os.close(writer)
            raise
        finally:
            os.close(reader)
        self._pipe = writer
        return writer

    def _push(self, pipe: int) -> None:
        """As much as the pipe takes now."""
        with suppress(BlockingIOError):
            try:
                while self._waiting:
                    del self._waiting[: os.write(pipe, self._waiting)]
            except BrokenPipeError:
                self._give_up(pipe)

    def _give_up(self, pipe: int) -> None:
        self.given_up, self._pipe = True, None
        self._waiting.clear()
        os.close(pipe)
        log.error("metrics.given-up sink=%s error=its process has ended; the run goes on without it", self._name)

    def _see_out(self, process: subprocess.Popen[bytes], end: float) -> None:
        """End the process and whatever it has started. It is reaped last: until then its number is nobody else's."""
        look = os.WEXITED | os.WNOWAIT | os.WNOHANG
        while not (left := os.waitid(os.P_PID, process.pid, look)) and time.monotonic() < end:
            time.sleep(_LOOK_EVERY_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
        if not left:
            log.warning("metrics.unfinished sink=%s: it has not finished within %g s", self._name, self._close_within_s)
        elif status != 0 and not self.given_up:
            log.error("metrics.unfinished sink=%s: its process ended with status %d", self._name, status)
