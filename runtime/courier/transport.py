"""Which transport MPI uses, in its own words and in ours; and why it is not a faster one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CHOSEN = re.compile(r"^libfabric provider: (\S+)", re.MULTILINE)
_RDMA_CLASS = Path("/sys/class/infiniband")
SHARED_MEMORY = "/dev/shm/mpich_shm_"  #: start of the files by which MPICH's processes share a host's memory

#: Start of a libfabric provider's name → what we call the transport.
_NAMES = {
    "verbs": "verbs",
    "efa": "efa",
    "psm": "psm",
    "opx": "opx",
    "cxi": "cxi",
    "shm": "shm",
    "sm2": "shm",
    "tcp": "tcp",
    "sockets": "tcp",
    "udp": "udp",
}
_RDMA = {"verbs", "efa", "psm", "opx", "cxi"}


@dataclass
class Captured:
    """What was printed; there once the block has ended."""

    text: str = ""


@contextmanager
def captured_stdout() -> Iterator[Captured]:
    """Catch what C code prints on standard output; what is not about MPI's settings is lost."""
    captured = Captured()
    sys.stdout.flush()
    kept, into = os.dup(1), os.memfd_create("stdout")
    os.dup2(into, 1)
    try:
        yield captured
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        captured.text = os.pread(into, 1 << 20, 0).decode(errors="replace")
        os.close(into)


def mapped_files(start: str) -> list[Path]:
    """Files that this process has mapped into its memory and whose path begins with `start`."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines if line.count("/")}
    return [Path(path) for path in sorted(paths) if path.startswith(start)]


def loaded_library(start: str) -> str | None:
    """File of a shared library that this process has loaded, by the start of its name; None if there is none."""
    return next((str(path) for path in mapped_files("/") if path.name.startswith(start)), None)


def provider_in(summary: str) -> str:
    """The provider named in MPICH's debug summary, "" if there is none."""
    found = _CHOSEN.search(summary)
    return found.group(1) if found else ""


def transport_of(provider: str) -> str:
    """tcp, verbs, efa, shm, …; "unknown" for a provider that says nothing."""
    return next((name for start, name in _NAMES.items() if provider.startswith(start)), provider or "unknown")


def rdma_devices(folder: Path = _RDMA_CLASS) -> list[str]:
    """Names of this machine's RDMA devices."""
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []


def explain(provider: str, devices: Sequence[str]) -> str:
    """Which transport and why, in one line for people."""
    transport = transport_of(provider)
    if transport in _RDMA:
        return f"{transport}: RDMA by libfabric's provider {provider} on {', '.join(devices) or 'its own device'}"
    if not provider:
        return "unknown: MPI did not say which provider it chose"
    if devices:
        return (
            f"{transport}: libfabric chose {provider} although there is {', '.join(devices)}; "
            "its library may lack the provider, or FI_PROVIDER excludes it"
        )
    return f"{transport}: libfabric's provider {provider}, as this machine has no RDMA device"
