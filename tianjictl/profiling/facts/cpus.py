"""Which CPUs this process may really use, and how they lie: package, NUMA node, hardware thread.

Counts of installed CPUs lie inside containers and under batch systems. Usable is what is left after every source has
had its say: online, affinity, CPU sets of all control groups; then the quota bounds how many of those are worth using.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from runtime.contract.model import Document
from tianjictl.profiling.facts import cores
from tianjictl.profiling.facts.cgroups import CgroupLimits
from tianjictl.profiling.facts.cores import Core as Core  # exported with the facts that hold it
from tianjictl.profiling.facts.cpulist import format_cpulist, parse_cpulist
from tianjictl.profiling.facts.numa import NumaNode
from tianjictl.profiling.facts.sources import Source

FILES = (
    "/proc/cpuinfo",
    "/proc/stat",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/isolated",
    "/sys/devices/system/cpu/smt/control",
    *cores.FILES,
)


class CpuFacts(Document):
    """`usable` is what a planner may pin to; `capacity` how many CPUs' worth of time there is (a quota may be odd)."""

    model: str = "unknown"
    online: tuple[int, ...]
    allowed: tuple[Core, ...]  #: after affinity and CPU sets, before the quota
    usable: tuple[int, ...]
    capacity: float
    quota: float | None = None
    sources: tuple[Source, ...] = ()
    smt: str | None = None  #: the kernel's word: on, off, forceoff, notsupported; None where it does not say
    isolated: tuple[int, ...] = ()  #: kept free of other processes by the kernel's command line

    @property
    def usable_cores(self) -> tuple[Core, ...]:
        return tuple(core for core in self.allowed if core.cpu in set(self.usable))


def parse(
    files: Mapping[str, str], affinity: tuple[int, ...] | None, limits: CgroupLimits, nodes: Iterable[NumaNode] = ()
) -> CpuFacts:
    """Understand the gathered texts; with nothing to read at all there is one CPU, number 0.

    `affinity` is what the kernel grants: online CPUs only. The mask in /proc/self/status also names CPUs that are not.
    """
    online = _online(files)
    mask = affinity or _from_status(files)
    says: list[tuple[str, tuple[int, ...]]] = [("online", online)] if online else []
    if mask:
        says.append(("affinity", mask))
    says += list(limits.cpusets)
    allowed = set(mask or online or (limits.cpusets[:1] and limits.cpusets[0][1]) or (0,))
    for name, cpus in says:
        if name == "online" and affinity:
            continue  # it is in the mask already, and some containers count their CPUs anew from 0
        # A list that is disjoint with where we are running cannot be true of us.
        allowed = allowed & set(cpus) or allowed
    found = cores.parse(sorted(allowed), files, nodes)
    quota = min((cpus for _, cpus in limits.quotas), default=None)
    sources = [Source(name=name, says=f"CPUs {format_cpulist(cpus)}") for name, cpus in says]
    sources += [Source(name=path, says=f"quota of {cpus:g} CPUs") for path, cpus in limits.quotas]
    return CpuFacts(
        model=_model(files),
        online=online or tuple(sorted(allowed)),
        allowed=found,
        usable=_within_quota(found, quota),
        capacity=float(len(found)) if quota is None else min(float(len(found)), quota),
        quota=quota,
        sources=tuple(sources),
        smt=files.get("/sys/devices/system/cpu/smt/control", "").strip() or None,
        isolated=parse_cpulist(files.get("/sys/devices/system/cpu/isolated", "")),
    )


def parse_load(loadavg: str) -> float | None:
    """Mean number of processes that ran or waited in the last minute."""
    first = loadavg.partition(" ")[0]
    return float(first) if re.fullmatch(r"\d+\.\d+", first) else None


def _within_quota(found: tuple[Core, ...], quota: float | None) -> tuple[int, ...]:
    """As many CPUs as the quota fills, whole physical cores first, from as few NUMA nodes as it takes."""
    if quota is None or quota >= len(found):
        return tuple(core.cpu for core in found)
    count = max(1, int(quota + 1e-9))
    room: dict[int, int] = {}
    for core in found:
        room[core.numa] = room.get(core.numa, 0) + (core.thread == 0)
    first = sorted(found, key=lambda core: (core.thread, -min(room[core.numa], count), core.numa, core.cpu))
    return tuple(sorted(core.cpu for core in first[:count]))


def _model(files: Mapping[str, str]) -> str:
    for line in files.get("/proc/cpuinfo", "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model", "Processor", "cpu"):
            return value.strip()
    parts = dict.fromkeys(re.findall(r"CPU part\s*:\s*(\S+)", files.get("/proc/cpuinfo", "")))
    return f"ARM part {' and '.join(parts)}" if parts else "unknown"


def _online(files: Mapping[str, str]) -> tuple[int, ...]:
    """Online CPUs; /proc/cpuinfo comes last, for of a big machine only its beginning is read."""
    listed = parse_cpulist(files.get("/sys/devices/system/cpu/online", ""))
    return (
        listed
        or _numbers(r"^cpu(\d+) ", files.get("/proc/stat", ""))
        or _numbers(r"^processor\s*:\s*(\d+)", files.get("/proc/cpuinfo", ""))
    )


def _numbers(pattern: str, text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(pattern, text, re.MULTILINE))


def _from_status(files: Mapping[str, str]) -> tuple[int, ...]:
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)", files.get("/proc/self/status", ""), re.MULTILINE)
    return parse_cpulist(match[1]) if match else ()
