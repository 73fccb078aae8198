"""What a host says about itself, as it says it: file texts and command outputs, not yet understood.

Gathering and understanding are apart so that a strange machine becomes a test by saving one RawFacts as JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pydantic import Field

from runtime.contract.model import Document
from tianjictl.profiling.facts.cgroups import cgroup_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

FILES = (
    "/proc/self/cgroup",
    "/proc/self/mountinfo",
    "/proc/self/status",
    "/proc/self/limits",
    "/proc/meminfo",
    "/proc/cpuinfo",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/kernel/osrelease",
    "/etc/machine-id",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id",
    "/sys/devices/system/cpu/cpu[0-9]*/topology/core_id",
    "/sys/devices/system/node/node[0-9]*/cpulist",
    "/sys/devices/system/node/node[0-9]*/distance",
    "/sys/class/net/*/operstate",
    "/sys/class/net/*/speed",
    "/sys/class/net/*/mtu",
)
GPU_COMMAND = ("nvidia-smi", "--query-gpu=index,name,memory.total,uuid", "--format=csv,noheader,nounits")
PACKAGES = ("gymnasium", "numpy", "torch", "pydantic", "tianjictl")


class FactReader(Protocol):
    """A host that can be read: this machine, or one across a connection."""

    @property
    def name(self) -> str: ...

    def read(self, patterns: Sequence[str]) -> dict[str, str]: ...

    def run(self, argv: Sequence[str], *, timeout_s: float = ...) -> str | None: ...

    def affinity(self) -> tuple[int, ...] | None: ...

    def disk(self, folder: Path) -> tuple[str, int, int] | None: ...

    def software(self, packages: Iterable[str]) -> tuple[str, dict[str, str]]: ...


class RawDisk(Document):
    """Space of the file system that will hold the run folder; bytes."""

    path: str
    total_bytes: int
    free_bytes: int


class RawFacts(Document):
    """Everything the parsers look at."""

    host: str
    files: dict[str, str] = Field(default_factory=dict)
    commands: dict[str, str] = Field(default_factory=dict)
    affinity: tuple[int, ...] | None = None
    disk: RawDisk | None = None
    python: str = ""
    packages: dict[str, str] = Field(default_factory=dict)


def gather(reader: FactReader, *, run_folder: Path, devices: bool = False) -> RawFacts:
    """Read what the parsers need. `devices` also asks nvidia-smi, which may take seconds."""
    files = reader.read(FILES)
    files |= reader.read(cgroup_files(files.get("/proc/self/cgroup", ""), files.get("/proc/self/mountinfo", "")))
    gpus = reader.run(GPU_COMMAND, timeout_s=10.0) if devices else None
    python, packages = reader.software(PACKAGES)
    disk = reader.disk(run_folder)
    return RawFacts(
        host=reader.name,
        files=files,
        commands={} if gpus is None else {" ".join(GPU_COMMAND): gpus},
        affinity=reader.affinity(),
        disk=None if disk is None else RawDisk(path=disk[0], total_bytes=disk[1], free_bytes=disk[2]),
        python=python,
        packages=packages,
    )
