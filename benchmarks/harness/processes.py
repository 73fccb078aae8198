"""The processes of one run, found by a mark in their environment: also those that left their parent's tree."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

MARK = "TIANJI_BENCH_MARK"
_PROC = Path("/proc")


def marked(mark: str) -> list[int]:
    """Process ids that carry `MARK=mark`. Zombies and other people's processes have no readable environment."""
    needle = f"{MARK}={mark}".encode()
    found = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if needle in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def sum_of_pss(pids: list[int]) -> int:
    """Bytes of memory that these processes hold together; pages shared among them count once."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def end(mark: str, *, grace_s: float = 5.0) -> None:
    """TERM, then KILL, for every process that carries the mark; returns when none is left."""
    for number, limit_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 30.0)):
        deadline = time.monotonic() + limit_s
        while pids := marked(mark):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"processes {marked(mark)} survived SIGKILL")
