"""Keeps the run's coordinator alive. It is the head agent's child, and goes on from its state file."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.contract.paths import RunPaths

RESTART_AFTER_S = 0.5
MOST_RESTARTS = 5
HEALTHY_LIFE_S = 60.0  #: one that lived this long starts the count of restarts again
FROZEN_AFTER_S = 5.0  #: of silence, if it has answered before


class CoordinatorKeeper:
    """Starts the coordinator, and starts it again when it is gone without having ended the run."""

    def __init__(self, paths: RunPaths, listen: str | None = None) -> None:
        """`listen`: the address at which agents of other nodes shall find it, none where there are none."""
        self._paths = paths
        self._listen = [] if listen is None else ["--listen", listen]
        self._restarts = 0
        self._gone_at: float | None = None
        self._started_at = 0.0
        self._has_answered = False
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._started_at, self._has_answered = time.monotonic(), False
        path = self._paths.logs / "coordinator.log"
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "runtime",
                    "coordinator",
                    str(self._paths.root),
                    str(os.getpid()),
                    *self._listen,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        finally:
            os.close(log)

    @property
    def pid(self) -> int:
        return self._process.pid

    def gone(self) -> bool:
        """Whether its process has ended."""
        return self._process.poll() is not None

    @property
    def ended(self) -> bool:
        """Whether it has left because the run has ended and its record is written: it says so by exit code 0."""
        return self._process.poll() == 0

    def heard(self) -> None:
        """It has answered."""
        self._has_answered = True

    def look(self, now: float, silent_s: float) -> bool:
        """Kill it if it is frozen, restart it if it is gone (at most MOST_RESTARTS times in a row of short lives).

        `silent_s` is how long it has not answered. True if it has just been started again.
        """
        if not self.gone():
            if self._has_answered and silent_s > FROZEN_AFTER_S:
                self._process.kill()
            return False
        if self.ended:
            return False
        if self._gone_at is None:
            self._gone_at = now
            if now - self._started_at > HEALTHY_LIFE_S:
                self._restarts = 0
        if self._restarts >= MOST_RESTARTS:
            return False
        if now - self._gone_at < RESTART_AFTER_S:
            return False
        self._gone_at = None
        self._restarts += 1
        self._process = self._start()
        return True

    def see_out(self, timeout_s: float) -> None:
        """Wait until it has left; kill it if it does not."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
