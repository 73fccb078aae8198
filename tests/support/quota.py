"""A quota of CPU time for real processes. Needs root, and control groups that may be written."""

from __future__ import annotations

import os
from pathlib import Path

_V1 = Path("/sys/fs/cgroup/cpu")
_V2 = Path("/sys/fs/cgroup")


def possible() -> bool:
    """Whether a quota can be made here."""
    folder = _V1 if _V1.is_dir() else _V2
    return os.geteuid() == 0 and os.access(folder, os.W_OK) and (folder is _V1 or _cpu_is_handed_down())


def _cpu_is_handed_down() -> bool:
    given = _V2 / "cgroup.subtree_control"
    return given.exists() and "cpu" in given.read_text().split()


class Quota:
    """Part of the time of one CPU for the processes that are put under it, and for their children. Needs root."""

    _EVERY_US = 10_000  # short: a component should not stand still for longer than a machine's other work would make it

    def __init__(self, name: str, share: float) -> None:
        self._folder = (_V1 if _V1.is_dir() else _V2) / f"{name}-{os.getpid()}"
        self._folder.mkdir()
        most = round(share * self._EVERY_US)
        if _V1.is_dir():
            (self._folder / "cpu.cfs_period_us").write_text(str(self._EVERY_US))
            (self._folder / "cpu.cfs_quota_us").write_text(str(most))
        else:
            (self._folder / "cpu.max").write_text(f"{most} {self._EVERY_US}")

    def hold(self, pid: int) -> None:
        (self._folder / "cgroup.procs").write_text(str(pid))

    def close(self) -> None:
        """When nobody is under it any more."""
        self._folder.rmdir()
