"""Everything the planner and the operator want to know of one host, understood from its raw facts."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import Field

from runtime.contract.model import Document
from tianjictl.profiling.facts import cgroups, cpus
from tianjictl.profiling.facts.cpus import CpuFacts, Source
from tianjictl.profiling.facts.raw import GPU_COMMAND, RawFacts

_NIC = re.compile(r"/sys/class/net/([^/]+)/operstate")
_UNKNOWN_MEMORY = 1 << 30  #: assumed where a host does not say: enough for one small group, no more


class MemoryFacts(Document):
    """Bytes; `limit_bytes` is the smallest of what is installed and what control groups allow."""

    total_bytes: int
    available_bytes: int | None = None
    limit_bytes: int
    sources: tuple[Source, ...] = ()


class NicFacts(Document):
    """One network interface; speed in Mbit/s where the driver tells."""

    name: str
    up: bool
    mbit_per_s: int | None = None
    mtu: int | None = None


class GpuFacts(Document):
    """One GPU as nvidia-smi lists it; memory in MiB."""

    index: int
    name: str
    memory_mib: int | None = None
    uuid: str = ""


class DiskFacts(Document):
    """Space of the file system of the run folder; bytes."""

    path: str
    total_bytes: int
    free_bytes: int


class HostFacts(Document):
    """One host, understood."""

    name: str
    cpu: CpuFacts
    memory: MemoryFacts
    nics: tuple[NicFacts, ...] = ()
    gpus: tuple[GpuFacts, ...] = ()
    disk: DiskFacts | None = None
    boot_id: str = ""
    machine_id: str = ""
    kernel: str = ""
    python: str = ""
    packages: dict[str, str] = Field(default_factory=dict)
    open_files: int | None = None  #: soft limit of descriptors per process
    processes: int | None = None  #: soft limit of processes of this user


def understand(raw: RawFacts) -> HostFacts:
    """Parse one host's raw facts; what is missing gets a stated, cautious default."""
    files = raw.files
    limits = cgroups.parse(files)
    return HostFacts(
        name=raw.host,
        cpu=cpus.parse(files, raw.affinity, limits),
        memory=_memory(files, limits.memory),
        nics=_nics(files),
        gpus=_gpus(raw.commands.get(" ".join(GPU_COMMAND), "")),
        disk=None if raw.disk is None else DiskFacts(**raw.disk.model_dump()),
        boot_id=files.get("/proc/sys/kernel/random/boot_id", "").strip(),
        machine_id=files.get("/etc/machine-id", "").strip(),
        kernel=files.get("/proc/sys/kernel/osrelease", "").strip(),
        python=raw.python,
        packages=raw.packages,
        open_files=_limit(files, "Max open files"),
        processes=_limit(files, "Max processes"),
    )


def _memory(files: Mapping[str, str], limits: tuple[tuple[str, int], ...]) -> MemoryFacts:
    kib = {match[1]: int(match[2]) for match in re.finditer(r"(\w+):\s+(\d+) kB", files.get("/proc/meminfo", ""))}
    says = [("MemTotal", kib["MemTotal"] * 1024)] if "MemTotal" in kib else []
    says += limits
    smallest = min((size for _, size in says), default=_UNKNOWN_MEMORY)
    return MemoryFacts(
        total_bytes=says[0][1] if says else _UNKNOWN_MEMORY,
        available_bytes=kib["MemAvailable"] * 1024 if "MemAvailable" in kib else None,
        limit_bytes=smallest,
        sources=tuple(Source(name=name, says=f"{size / 2**30:.2f} GiB") for name, size in says),
    )


def _nics(files: Mapping[str, str]) -> tuple[NicFacts, ...]:
    found = []
    for path in sorted(files):
        match = _NIC.fullmatch(path)
        if match is None or match[1] == "lo":
            continue
        folder = path.rsplit("/", 1)[0]
        speed = _number(files.get(f"{folder}/speed", ""))
        found.append(
            NicFacts(
                name=match[1],
                up=files[path].strip() == "up",
                mbit_per_s=speed if speed is not None and speed > 0 else None,  # -1: the driver does not know
                mtu=_number(files.get(f"{folder}/mtu", "")),
            )
        )
    return tuple(found)


def _gpus(listing: str) -> tuple[GpuFacts, ...]:
    found = []
    for line in listing.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) >= 3 and fields[0].isdigit():
            uuid = fields[3] if len(fields) > 3 else ""
            found.append(GpuFacts(index=int(fields[0]), name=fields[1], memory_mib=_number(fields[2]), uuid=uuid))
    return tuple(found)


def _limit(files: Mapping[str, str], name: str) -> int | None:
    match = re.search(rf"^{name}\s+(\d+)", files.get("/proc/self/limits", ""), re.MULTILINE)
    return int(match[1]) if match else None


def _number(text: str) -> int | None:
    try:
        return int(text.strip())
    except ValueError:
        return None
