"""A host's facts in few words, a line for each matter; what a host does not have or say takes no line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tianjictl.profiling.facts.cpulist import format_cpulist

if TYPE_CHECKING:
    from tianjictl.profiling.facts.host import HostFacts
    from tianjictl.profiling.facts.limits import Amount
    from tianjictl.profiling.facts.nics import NicFacts
    from tianjictl.profiling.facts.rdma import RdmaPort
    from tianjictl.profiling.facts.space import SpaceFacts


def rows(facts: HostFacts) -> list[tuple[str, str]]:
    """(matter, what there is of it), in the order in which they decide about a plan."""
    told = [
        ("CPUs", _cpus(facts)),
        ("cores", _cores(facts)),
        ("NUMA", _numa(facts)),
        ("memory", _memory(facts)),
        ("space", _joined(_space(name, of) for name, of in _places(facts))),
        ("network", _joined(_nic(nic) for nic in facts.nics)),
        ("RDMA", _joined(_port(port) for port in facts.rdma)),
        ("MPI over", f"{facts.fabric.chosen} ({facts.fabric.why})" if facts.fabric.why else ""),
        ("GPUs", _gpus(facts)),
        ("limits", _limits(facts)),
        ("name", _name(facts)),
        ("system", _system(facts)),
        ("Python", _python(facts)),
        ("MPI", _mpi(facts)),
        ("variables", ", ".join(f"{name}={value}" for name, value in facts.environment.items())),
        ("login", f"prints {facts.login_prints!r}" if facts.login_prints else ""),
    ]
    return [(matter, words) for matter, words in told if words]


def size(count: int) -> str:
    """Bytes for people: three digits and a binary unit."""
    value, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 1000 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.3g} {units[0]}" if value < 1000 else f"{value:.0f} {units[0]}"


def _cpus(facts: HostFacts) -> str:
    cpu = facts.cpu
    return f"{len(cpu.usable)} usable ({format_cpulist(cpu.usable)}), {cpu.capacity:g} CPUs' worth of time"


def _cores(facts: HostFacts) -> str:
    cpu = facts.cpu
    physical = {(core.package, core.core) for core in cpu.allowed}
    packages = {core.package for core in cpu.allowed}
    speeds = sorted({core.max_mhz for core in cpu.allowed if core.max_mhz})
    return _listed(
        f"{len(physical)} physical in {_count(len(packages), 'package')}",
        "no SMT" if cpu.smt == "notsupported" else f"SMT {cpu.smt}" if cpu.smt else "",
        f"{_and(speeds)} MHz at most" if speeds else "",
        f"governor {_and(facts.governors)}" if facts.governors else "",
        f"{format_cpulist(cpu.isolated)} isolated" if cpu.isolated else "",
    )


def _numa(facts: HostFacts) -> str:
    if len(facts.numa) < 2:
        return ""
    nodes = (
        f"{node.node}: CPUs {format_cpulist(node.cpus) or 'none'}"
        + ("" if node.memory_bytes is None else f", {size(node.memory_bytes)}")
        for node in facts.numa
    )
    distances = sorted({far for row in facts.numa_distances for far in row})
    return _joined(nodes) + (f"; distances {_and(distances)}" if distances else "")


def _memory(facts: HostFacts) -> str:
    memory, swap = facts.memory, facts.swap
    swapped = ""
    if swap is not None:
        taken = f"{size(swap.used_bytes)} of {size(swap.total_bytes)} swap in use"
        swapped = taken if swap.total_bytes else "no swap"
    available = "" if memory.available_bytes is None else f"{size(memory.available_bytes)} available"
    return _listed(size(memory.limit_bytes), available, swapped)


def _places(facts: HostFacts) -> list[tuple[str, SpaceFacts | None]]:
    return [("runs", facts.disk), ("/dev/shm", facts.shm), ("temporary", facts.tmp)]


def _space(name: str, space: SpaceFacts | None) -> str:
    if space is None:
        return ""
    where = space.path if space.path != name else ""
    kind = space.fs_type + (" over the network" if space.over_network else "")
    about = _listed(where, kind, f"{space.inodes_free} inodes" if space.inodes_free is not None else "")
    return f"{name} {size(space.free_bytes)} free" + (f" ({about})" if about else "")


def _nic(nic: NicFacts) -> str:
    if not nic.up:
        return f"{nic.name} {nic.state or 'down'}"
    speed = f"{nic.mbit_per_s} Mbit/s" if nic.mbit_per_s else "speed unknown"
    return _listed(f"{nic.name} up", speed, f"MTU {nic.mtu}" if nic.mtu else "", nic.driver or "")


def _port(port: RdmaPort) -> str:
    speed = f" {port.gbit_per_s:g} Gbit/s" if port.gbit_per_s else ""
    netdev = f" ({port.netdev})" if port.netdev else ""
    return f"{port.device} port {port.port} {port.state} {port.layer}{speed}{netdev}"


def _gpus(facts: HostFacts) -> str:
    listed = (
        f"{gpu.index} {gpu.name} {gpu.memory_mib or '?'} MiB"
        + (f" in parts {', '.join(part.profile for part in gpu.parts)}" if gpu.parts else "")
        for gpu in facts.gpus
    )
    return _joined(listed) or (facts.gpu_problem or "")


def _limits(facts: HostFacts) -> str:
    limits = facts.limits
    memlock = limits.memlock_bytes
    counts = [limits.processes, limits.group_processes]
    numbers = [count for count in counts if isinstance(count, int)]
    processes: Amount = min(numbers) if numbers else limits.processes
    return _listed(
        f"locked memory {size(memlock) if isinstance(memlock, int) else memlock}" if memlock is not None else "",
        f"open files {limits.open_files}" if limits.open_files is not None else "",
        f"processes {processes}" if processes is not None else "",
    )


def _name(facts: HostFacts) -> str:
    names = facts.names
    if not names.hostname:
        return ""
    return f"{names.hostname}, which is {_and(names.resolves_to) or 'unknown to itself'}"


def _system(facts: HostFacts) -> str:
    clock = facts.clock
    return _listed(
        f"Linux {facts.kernel}" if facts.kernel else "",
        f"{facts.container} container" if facts.container else "",
        f"virtual machine ({facts.virtual})" if facts.virtual else "",
        f"load {facts.load_1min:.1f}" if facts.load_1min is not None else "",
        f"clock {clock.offset_s * 1000:+,.0f} ms ± {clock.uncertainty_s * 1000:,.0f} ms" if clock else "",
    )


def _python(facts: HostFacts) -> str:
    if not facts.python:
        return f"none that will do; passed over: {', '.join(facts.old_pythons)}" if facts.old_pythons else ""
    return _listed(facts.python, *(f"{name} {version}" for name, version in facts.packages.items()))


def _mpi(facts: HostFacts) -> str:
    mpi = facts.mpi
    if not mpi.mpiexec:
        return mpi.library
    starter = f"{mpi.family} {mpi.version}" if mpi.family else f"unknown: {mpi.problem}"
    return _listed(mpi.library, f"{mpi.mpiexec} is {starter}")


def _count(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _and(items: Iterable[object]) -> str:
    return " and ".join(str(item) for item in items)


def _listed(*words: str) -> str:
    return ", ".join(word for word in words if word)


def _joined(parts: Iterable[str]) -> str:
    return "; ".join(part for part in parts if part)
