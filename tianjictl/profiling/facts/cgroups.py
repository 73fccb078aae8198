"""Limits that control groups put on this process: CPUs, memory and processes, for v1, v2 and hybrid layouts.

A limit anywhere between the process's own group and the root binds, so every level is read and the smallest one counts.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import NamedTuple

from runtime.contract.cgroup_folders import hierarchies
from tianjictl.profiling.facts.cpulist import parse_cpulist

V1_FILES = {
    "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us"),
    "cpuset": ("cpuset.effective_cpus", "cpuset.cpus"),
    "memory": ("memory.limit_in_bytes",),
    "pids": ("pids.max",),
}
V2_FILES = ("cpu.max", "cpuset.cpus.effective", "cpuset.cpus", "memory.max", "memory.high", "pids.max")
#: From memory.high on the kernel holds a group up until it has given memory back, so it is a limit too.
_MEMORY = ("memory.max", "memory.high", "memory.limit_in_bytes")
_NO_LIMIT_BYTES = 1 << 60  #: v1 writes an unlimited memory as a number near 2**63


class CgroupLimits(NamedTuple):
    """Each limit with the file that sets it, in the order found."""

    quotas: tuple[tuple[str, float], ...]  #: (file, CPUs)
    cpusets: tuple[tuple[str, tuple[int, ...]], ...]
    memory: tuple[tuple[str, int], ...]  #: (file, bytes)
    processes: tuple[tuple[str, int], ...] = ()  #: (file, processes and threads)


def cgroup_files(cgroup: str, mountinfo: str) -> list[str]:
    """Every file that may hold a limit of this process."""
    paths = []
    for hierarchy in hierarchies(cgroup, mountinfo):
        names = V2_FILES if not hierarchy.controllers else _v1_names(hierarchy.controllers)
        paths += [f"{folder}/{name}" for folder in hierarchy.folders for name in names]
    return paths


def _v1_names(controllers: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for controller in sorted(controllers) for name in V1_FILES.get(controller, ()))


def parse(files: Mapping[str, str]) -> CgroupLimits:
    """Read the limits out of gathered file texts."""
    quotas: list[tuple[str, float]] = []
    cpusets: list[tuple[str, tuple[int, ...]]] = []
    memory: list[tuple[str, int]] = []
    processes: list[tuple[str, int]] = []
    for path in cgroup_files(files.get("/proc/self/cgroup", ""), files.get("/proc/self/mountinfo", "")):
        text = files.get(path, "").strip()
        name = posixpath.basename(path)
        if not text:
            continue
        if name == "cpu.max":
            quota, _, period = text.partition(" ")
            quotas += _quota(path, quota, period or "100000")
        elif name == "cpu.cfs_quota_us":
            quotas += _quota(path, text, files.get(posixpath.join(posixpath.dirname(path), "cpu.cfs_period_us"), ""))
        elif name.startswith("cpuset."):
            cpusets += [(path, cpus)] if (cpus := parse_cpulist(text)) else []
        elif name in _MEMORY and text.isdigit() and int(text) < _NO_LIMIT_BYTES:
            memory.append((path, int(text)))
        elif name == "pids.max" and text.isdigit():
            processes.append((path, int(text)))
    return CgroupLimits(tuple(quotas), tuple(cpusets), tuple(memory), tuple(processes))


def _quota(path: str, quota: str, period: str) -> list[tuple[str, float]]:
    """CPUs from microseconds per period; `max` and -1 mean none, and so does a text that is no number."""
    try:
        cpus = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return []
    return [(path, cpus)] if cpus > 0 else []
