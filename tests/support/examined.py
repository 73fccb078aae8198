"""Made-up hosts for the doctor: healthy, with nothing to be said of them, unless told otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tianjictl.doctor.finding import Finding
from tianjictl.doctor.report import judge
from tianjictl.doctor.situation import Examined, Situation
from tianjictl.hosts.types import Host
from tianjictl.launching.host_check import HostCheck
from tianjictl.profiling.facts.clock import ClockFacts
from tianjictl.profiling.facts.cpus import Core, CpuFacts, Source
from tianjictl.profiling.facts.host import HostFacts
from tianjictl.profiling.facts.limits import LimitFacts
from tianjictl.profiling.facts.memory import MemoryFacts, SwapFacts
from tianjictl.profiling.facts.mpi import MpiFacts
from tianjictl.profiling.facts.names import NameFacts
from tianjictl.profiling.facts.network import Address, NetworkFacts
from tianjictl.profiling.facts.nics import NicFacts
from tianjictl.profiling.facts.numa import NumaNode
from tianjictl.profiling.facts.space import SpaceFacts
from tianjictl.profiling.remote_facts import NodeFacts

MIB, GIB = 1 << 20, 1 << 30
NETWORK = "10.0.0.0/24"


def cpus(count: int = 8, numbers: tuple[int, ...] | None = None, **changes: Any) -> CpuFacts:
    """So many cores, all of one NUMA node and clocked at their best; `package` and `governor` go to every core."""
    own = {name: changes.pop(name) for name in ("governor",) if name in changes}
    numbers = tuple(range(count)) if numbers is None else numbers
    cores = tuple(Core(cpu=cpu, core=cpu, governor=own.get("governor", "performance")) for cpu in numbers)
    made = CpuFacts(online=tuple(range(count)), allowed=cores, usable=numbers, capacity=float(len(numbers)))
    return made.model_copy(update=changes)


def space(free: int, path: str = "/tmp", **changes: Any) -> SpaceFacts:
    return SpaceFacts(path=path, total_bytes=100 * GIB, free_bytes=free, fs_type="ext4").model_copy(update=changes)


def memory(limit: int = 64 * GIB, available: int | None = None, total: int = 64 * GIB) -> MemoryFacts:
    says = (
        Source(name="MemTotal", says=f"{total / GIB:.2f} GiB"),
        Source(name="memory.max", says=f"{limit / GIB:.2f} GiB"),
    )
    free = min(limit, total) if available is None else available
    return MemoryFacts(total_bytes=total, available_bytes=free, limit_bytes=limit, sources=says)


def facts(name: str = "cn01", **changes: Any) -> HostFacts:
    """Of a host in the best of health."""
    made = HostFacts(
        name=name,
        cpu=cpus(),
        memory=memory(),
        numa=(NumaNode(node=0, cpus=tuple(range(8)), distances=(10,)),),
        swap=SwapFacts(),
        nics=(NicFacts(name="eth0", up=True, mtu=1500, state="up"),),
        disk=space(50 * GIB, "/srv/u"),
        shm=space(8 * GIB, "/dev/shm", fs_type="tmpfs"),
        tmp=space(20 * GIB),
        names=NameFacts(hostname=name, resolves_to=(f"10.0.0.{int(name[2:])}",)),
        python="3.12.1",
        packages={"gymnasium": "1.2.0", "numpy": "2.1.3", "pydantic": "2.9.0"},
        mpi=MpiFacts(library="MPICH 5.0.2", mpi4py="4.1.0"),
        limits=LimitFacts(
            memlock_bytes="unlimited", open_files=1024, processes=60_000, hard_open_files=500_000, autogroup=False
        ),
        clock=ClockFacts(offset_s=0.001, uncertainty_s=0.002),
        load_1min=0.1,
    )
    return made.model_copy(update=changes)


def host(name: str = "cn01", *, here: bool = False, **changes: Any) -> Examined:
    """A host that was looked at. `changes` are for its facts, or for `Examined` where that has the field; those that
    begin with `host_` are for the inventory's host.
    """
    number = int(name[2:])
    own = {key.removeprefix("host_"): changes.pop(key) for key in list(changes) if key.startswith("host_")}
    listed = Host(name, f"10.0.0.{number}", connection="local" if here else "ssh", **{"network": NETWORK, **own})
    fields = {key: changes.pop(key) for key in list(changes) if key in Examined.__slots__}
    address = changes.pop("address", f"10.0.0.{number}")
    identity = changes.pop("identity", name)
    known = NetworkFacts((Address("lo", "127.0.0.1", "127.0.0.0/8"), Address("eth0", address, NETWORK)))
    node = NodeFacts(listed, facts(name, **changes), identity, known)
    made = Examined(listed, reached_s=0.3, node=node, software=software())
    return replace(made, **fields)


def software(**changes: Any) -> HostCheck:
    """A Python with everything in it."""
    made = HostCheck(python="/venv/bin/python", version=(3, 12, 1), state="/srv/u/.local/state/tianjictl")
    return made.model_copy(update=changes)


def several(*hosts: Examined, **changes: Any) -> Situation:
    """A cluster of these hosts."""
    known: dict[str, Any] = {
        "inventory": "inventory/hosts.yaml",
        "networks": {one.name: one.host.network for one in hosts},
        **changes,
    }
    return Situation(hosts, **known)


def finding(check: str, one: Examined, *others: Examined, **changes: Any) -> Finding:
    """What one check says of `one`, beside others (one healthy host, if none is given)."""
    beside = others or (host("cn02"),)
    report = judge(several(one, *beside, **changes), only=frozenset({check}))
    row = report.at(check, one.name)
    assert row is not None
    return row
