"""The processes of one run: all that descend from this one, also those that detached themselves.

The harness makes itself the reaper of its orphans (Linux `prctl`), so a daemon that lets go of its parent becomes a
child of the harness instead of a child of init. An environment variable as a mark would not do: Ray's workers write
their titles over it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")


class _Process(NamedTuple):
    pid: int
    parent: int
    zombie: bool


def adopt_orphans() -> None:
    """Make orphaned descendants children of this process from now on; OSError where the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def family() -> list[int]:
    """Process ids of all living descendants of this process."""
    return [process.pid for process in _descendants() if not process.zombie]


def sum_of_pss(pids: list[int]) -> int:
    """Bytes of memory that these processes hold together; pages shared among them count once."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended, or is ending
            for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def end_family(*, grace_s: float = 5.0) -> None:
    """TERM, then KILL, for every descendant; returns when none is left. Whoever holds a Popen still waits for it."""
    for number, limit_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 30.0)):
        deadline = time.monotonic() + limit_s
        for pid in family():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while family() and time.monotonic() < deadline:
            time.sleep(0.05)
            if number == signal.SIGKILL:
                for pid in family():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
    if left := family():
        raise RuntimeError(f"processes {left} survived SIGKILL")


def bury(*, but: int) -> None:
    """Collect adopted orphans that have ended; `but` is left to the Popen that owns it."""
    own = os.getpid()
    for process in _descendants():
        if process.zombie and process.parent == own and process.pid != but:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def _descendants() -> list[_Process]:
    children: dict[int, list[_Process]] = {}
    for process in _everyone():
        children.setdefault(process.parent, []).append(process)
    found, waiting = [], [os.getpid()]
    while waiting:
        for process in children.get(waiting.pop(), ()):
            found.append(process)
            waiting.append(process.pid)
    return found


def _everyone() -> list[_Process]:
    processes = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The command's name stands in brackets and may hold anything: read on after the last one.
                state, parent, *_ = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                processes.append(_Process(int(entry.name), int(parent), state == "Z"))
    return processes
