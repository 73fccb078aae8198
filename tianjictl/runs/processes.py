"""The processes of a run, known by the run id in their environment and by nothing else, least of all by name."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.run_mark import carries_mark
from runtime.contract.waiting import wait_readable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tianjictl.runs.registry import Run

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class RunProcess:
    """One process that carries the run's id."""

    pid: int
    command: str
    host: str | None = None  #: none: this machine

    def __str__(self) -> str:
        where = f" on {self.host}" if self.host else ""
        return f"{self.pid} ({self.command}){where}"


def processes_of(run_id: str) -> list[RunProcess]:
    """Every living process of this user whose environment holds the run id; the caller itself is left out.

    A zombie has no environment any more and is not counted: nothing of it is left but an exit code.
    """
    pids = sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return [RunProcess(pid, _command(pid)) for pid in pids if pid != os.getpid() and carries_mark(pid, run_id)]


def everything_of(run: Run) -> list[RunProcess]:
    """The processes of the run and its agent, which is known by the lock it holds."""
    found = processes_of(run.run_id)
    agent = run.agent_pid()
    if agent is not None and agent not in {process.pid for process in found}:
        found.append(RunProcess(agent, _command(agent)))
    return found


def send(run: Run, signal_number: signal.Signals, *, only: Iterable[int] | None = None) -> list[RunProcess]:
    """Signal what carries the run's id and return whom. A pid that was reused meanwhile is never hit."""
    chosen = everything_of(run) if only is None else [p for p in everything_of(run) if p.pid in set(only)]
    reached = []
    for process in chosen:
        try:
            handle = os.pidfd_open(process.pid)
        except OSError:
            continue
        try:
            # The handle pins the process; only now is it certain that it is still the one that was found.
            if carries_mark(process.pid, run.run_id) or process.pid == run.agent_pid():
                signal.pidfd_send_signal(handle, signal_number)
                reached.append(process)
        except ProcessLookupError:
            continue
        finally:
            os.close(handle)
    return reached


def wait_gone(run: Run, deadline: float) -> list[RunProcess]:
    """Wait until nothing of the run lives or the monotonic clock passes `deadline`; what is left is returned."""
    while True:
        left = everything_of(run)
        remaining = deadline - time.monotonic()
        if not left or remaining <= 0:
            return left
        _wait_exit(left[0].pid, min(remaining, 0.2))


def _wait_exit(pid: int, timeout_s: float) -> None:
    """Sleep until the process ends, at most `timeout_s`."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        wait_readable(handle, timeout_s)
    finally:
        os.close(handle)


def _command(pid: int) -> str:
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return "?"
    return " ".join(word.decode(errors="replace") for word in words if word) or "?"
