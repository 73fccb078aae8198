"""Which CPUs this process may really use, and how they lie: package, NUMA node, hardware thread.

Counts of installed CPUs lie inside containers and under batch systems. Usable is what is left after every source has
had its say: online, affinity, CPU sets of all control groups; then the quota bounds how many of those are worth using.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from runtime.contract.model import Document
from tianjictl.profiling.facts.cgroups import CgroupLimits
from tianjictl.profiling.facts.cpulist import format_cpulist, parse_cpulist
from tianjictl.profiling.facts.sources import Source

_TOPOLOGY = re.compile(r"/sys/devices/system/cpu/cpu(\d+)/topology/(physical_package_id|core_id)")
_NODE = re.compile(r"/sys/devices/system/node/node(\d+)/cpulist")


class Core(Document):
    """One CPU of the operating system."""

    cpu: int
    package: int = 0
    core: int = 0  #: physical core within its package
    numa: int = 0
    thread: int = 0  #: 0 for the first usable CPU of a physical core, 1 for its sibling, …
    max_mhz: int | None = None
    governor: str | None = None  #: who decides on its frequency: performance, powersave, schedutil, …


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


def parse(files: Mapping[str, str], affinity: tuple[int, ...] | None, limits: CgroupLimits) -> CpuFacts:
    """Understand the gathered texts; with nothing to read at all there is one CPU, number 0."""
    online = parse_cpulist(files.get("/sys/devices/system/cpu/online", "")) or _from_cpuinfo(files)
    says: list[tuple[str, tuple[int, ...]]] = [("online", online)] if online else []
    mask = affinity or _from_status(files)
    if mask:
        says.append(("affinity", mask))
    says += list(limits.cpusets)
    allowed = set(says[0][1]) if says else {0}
    for _, cpus in says[1:]:
        # A CPU set from a hierarchy that does not bind us may be disjoint: it cannot be true, as we are running.
        allowed = allowed & set(cpus) or allowed
    cores = _with_topology(sorted(allowed), files)
    quota = min((cpus for _, cpus in limits.quotas), default=None)
    usable = _within_quota(cores, quota)
    sources = [Source(name=name, says=f"CPUs {format_cpulist(cpus)}") for name, cpus in says]
    sources += [Source(name=path, says=f"quota of {cpus:g} CPUs") for path, cpus in limits.quotas]
    return CpuFacts(
        model=_model(files),
        online=online or tuple(sorted(allowed)),
        allowed=cores,
        usable=usable,
        capacity=float(len(cores)) if quota is None else min(float(len(cores)), quota),
        quota=quota,
        sources=tuple(sources),
    )


def _within_quota(cores: tuple[Core, ...], quota: float | None) -> tuple[int, ...]:
    """As many CPUs as the quota fills, whole physical cores first, from as few NUMA nodes as it takes."""
    if quota is None or quota >= len(cores):
        return tuple(core.cpu for core in cores)
    count = max(1, int(quota + 1e-9))
    room: dict[int, int] = {}
    for core in cores:
        room[core.numa] = room.get(core.numa, 0) + (core.thread == 0)
    first = sorted(cores, key=lambda core: (core.thread, -min(room[core.numa], count), core.numa, core.cpu))
    return tuple(sorted(core.cpu for core in first[:count]))


def _with_topology(cpus: list[int], files: Mapping[str, str]) -> tuple[Core, ...]:
    place: dict[tuple[int, str], int] = {}
    numa: dict[int, int] = {}
    for path, text in files.items():
        if match := _TOPOLOGY.fullmatch(path):
            number = text.strip()
            place[int(match[1]), match[2]] = int(number) if number.isdigit() else 0
        elif match := _NODE.fullmatch(path):
            numa.update(dict.fromkeys(parse_cpulist(text), int(match[1])))
    cores = []
    seen: dict[tuple[int, int], int] = {}
    for cpu in cpus:
        package = place.get((cpu, "physical_package_id"), 0)
        # Without topology each CPU counts as a core of its own.
        core = place.get((cpu, "core_id"), cpu)
        thread = seen.get((package, core), 0)
        seen[package, core] = thread + 1
        cores.append(Core(cpu=cpu, package=package, core=core, numa=numa.get(cpu, 0), thread=thread))
    return tuple(cores)


def _model(files: Mapping[str, str]) -> str:
    for line in files.get("/proc/cpuinfo", "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model", "Processor"):
            return value.strip()
    implementer = re.search(r"CPU part\s*:\s*(\S+)", files.get("/proc/cpuinfo", ""))
    return f"ARM part {implementer[1]}" if implementer else "unknown"


def _from_cpuinfo(files: Mapping[str, str]) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"^processor\s*:\s*(\d+)", files.get("/proc/cpuinfo", ""), re.MULTILINE))


def _from_status(files: Mapping[str, str]) -> tuple[int, ...]:
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)", files.get("/proc/self/status", ""), re.MULTILINE)
    return parse_cpulist(match[1]) if match else ()
