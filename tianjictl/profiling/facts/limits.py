"""What the kernel lets one process and one user have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from runtime.contract.model import Document

#: A number; `unlimited`; None where the host does not say.
Amount = int | Literal["unlimited"] | None
FILES = (
    "/proc/self/limits",
    "/proc/sys/fs/file-max",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/sched_autogroup_enabled",
)


class LimitFacts(Document):
    """Soft limits of a process as a run would get them; `hard_…` is what it may raise them to by itself."""

    memlock_bytes: Amount = None  #: memory that may be locked, which RDMA needs
    open_files: Amount = None
    processes: Amount = None  #: processes and threads of this user
    hard_memlock_bytes: Amount = None
    hard_open_files: Amount = None
    hard_processes: Amount = None
    group_processes: int | None = None  #: processes and threads in our control groups, the smallest limit of them
    system_files: int | None = None  #: open files of the whole machine
    system_processes: int | None = None  #: process numbers of the whole machine
    autogroup: bool | None = None  #: the kernel shares time by session, so nice counts only inside one


def parse(files: Mapping[str, str], groups: tuple[tuple[str, int], ...] = ()) -> LimitFacts:
    """Limits of the texts; `groups` are (file, processes) of the control groups."""
    table = files.get("/proc/self/limits", "")
    memlock, open_files, processes = (
        _row(table, name) for name in ("Max locked memory", "Max open files", "Max processes")
    )
    autogroup = _number(files, "/proc/sys/kernel/sched_autogroup_enabled")
    return LimitFacts(
        memlock_bytes=memlock[0],
        open_files=open_files[0],
        processes=processes[0],
        hard_memlock_bytes=memlock[1],
        hard_open_files=open_files[1],
        hard_processes=processes[1],
        group_processes=min((count for _, count in groups), default=None),
        system_files=_number(files, "/proc/sys/fs/file-max"),
        system_processes=_number(files, "/proc/sys/kernel/pid_max"),
        autogroup=None if autogroup is None else autogroup != 0,
    )


def _row(table: str, name: str) -> tuple[Amount, Amount]:
    """Soft and hard limit of a row of /proc/self/limits."""
    match = re.search(rf"^{name}\s+(\d+|unlimited)\s+(\d+|unlimited)", table, re.MULTILINE)
    return (_amount(match[1]), _amount(match[2])) if match else (None, None)


def _amount(text: str) -> Amount:
    return int(text) if text.isdigit() else "unlimited"


def _number(files: Mapping[str, str], path: str) -> int | None:
    text = files.get(path, "").strip()
    return int(text) if text.isdigit() else None
