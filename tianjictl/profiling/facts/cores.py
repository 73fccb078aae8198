"""How CPUs lie: package, physical core, hardware thread, NUMA node; and how fast the kernel lets each be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from runtime.contract.model import Document
from tianjictl.profiling.facts.cpulist import parse_cpulist
from tianjictl.profiling.facts.numa import NumaNode

_FOLDER = "/sys/devices/system/cpu/cpu[0-9]*"
FILES = (
    f"{_FOLDER}/topology/physical_package_id",
    f"{_FOLDER}/topology/core_id",
    f"{_FOLDER}/topology/thread_siblings_list",
    f"{_FOLDER}/cpufreq/cpuinfo_max_freq",
    f"{_FOLDER}/cpufreq/scaling_governor",
)
_FILE = re.compile(r"/sys/devices/system/cpu/cpu(\d+)/(?:topology|cpufreq)/(\w+)")


class Core(Document):
    """One CPU of the operating system."""

    cpu: int
    package: int = 0
    core: int = 0  #: physical core within its package
    numa: int = 0
    thread: int = 0  #: 0 for the first usable CPU of a physical core, 1 for its sibling, …
    max_mhz: int | None = None
    governor: str | None = None  #: who decides on its frequency: performance, powersave, schedutil, …


class _Place(NamedTuple):
    package: int
    core: int
    first: int  #: lowest CPU of the same physical core


def parse(cpus: Iterable[int], files: Mapping[str, str], nodes: Iterable[NumaNode]) -> tuple[Core, ...]:
    """The places of `cpus`; without topology each CPU is a core of its own, in package and node 0."""
    says: dict[int, dict[str, str]] = {}
    for path, text in files.items():
        if match := _FILE.fullmatch(path):
            says.setdefault(int(match[1]), {})[match[2]] = text.strip()
    numa = {cpu: node.node for node in nodes for cpu in node.cpus}
    wanted = list(cpus)
    places = _with_distinct_cores({cpu: _place(cpu, says.get(cpu, {})) for cpu in wanted})
    threads: dict[tuple[int, int], int] = {}
    found = []
    for cpu in wanted:
        package, core, _ = places[cpu]
        thread = threads.get((package, core), 0)
        threads[package, core] = thread + 1
        khz = says.get(cpu, {}).get("cpuinfo_max_freq", "")
        found.append(
            Core(
                cpu=cpu,
                package=package,
                core=core,
                numa=numa.get(cpu, 0),
                thread=thread,
                max_mhz=int(khz) // 1000 if khz.isdigit() else None,
                governor=says.get(cpu, {}).get("scaling_governor") or None,
            )
        )
    return tuple(found)


def _place(cpu: int, says: Mapping[str, str]) -> _Place:
    package, core = says.get("physical_package_id", ""), says.get("core_id", "")
    siblings = parse_cpulist(says.get("thread_siblings_list", ""))
    # Firmware that does not know writes -1, which is no number of a core that anything could share.
    number = int(core) if core.isdigit() else cpu
    return _Place(int(package) if package.isdigit() else 0, number, siblings[0] if siblings else -1)


def _with_distinct_cores(places: Mapping[int, _Place]) -> dict[int, _Place]:
    """Places where no two physical cores of a package have one number.

    ARM counts cores from 0 in every cluster, and some processors in every die; only the list of siblings tells the
    truth then. In a package where that happens, cores are called by their first CPU.
    """
    firsts: dict[tuple[int, int], set[int]] = {}
    for place in places.values():
        firsts.setdefault((place.package, place.core), set()).add(place.first)
    mixed = {package for (package, _), seen in firsts.items() if len(seen) > 1 and -1 not in seen}
    return {
        cpu: place._replace(core=place.first) if place.package in mixed and place.first >= 0 else place
        for cpu, place in places.items()
    }
