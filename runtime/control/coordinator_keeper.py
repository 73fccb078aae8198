"""Keeps the run's coordinator alive. It is the head agent's child, and goes on from its state file."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.contract.paths import RunPaths

RESTART_AFTER_S = 0.5
MOST_RESTARTS = 5


class CoordinatorKeeper:
    """Starts the coordinator, and starts it again when it is gone without having ended the run."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._restarts = 0
        self._gone_at: float | None = None
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        path = self._paths.logs / "coordinator.log"
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            return subprocess.Popen(
                [sys.executable, "-m", "runtime", "coordinator", str(self._paths.root)],
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

    def look(self, now: float) -> bool:
        """Restart it if need be (at most MOST_RESTARTS times); True if it has just been started again."""
        if not self.gone() or self._restarts >= MOST_RESTARTS:
            return False
        if self._gone_at is None:
            self._gone_at = now
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
