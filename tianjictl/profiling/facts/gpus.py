"""GPUs as nvidia-smi lists them, with the parts that MIG makes of them."""

from __future__ import annotations

import re

from runtime.contract.model import Document

#: `-L` alone knows of MIG parts. Queries of fields that a driver does not know fail whole, so these are old ones.
QUERY = "nvidia-smi --query-gpu=index,name,memory.total,uuid,driver_version --format=csv,noheader,nounits"
LISTING = "nvidia-smi -L"
_GPU = re.compile(r"GPU (\d+): ")
_PART = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (\S+?)\)")


class MigFacts(Document):
    """One part of a GPU; `profile` as NVIDIA writes it: `3g.20gb` is three sevenths of the chip with 20 GB."""

    index: int
    profile: str
    uuid: str


class GpuFacts(Document):
    """One GPU as nvidia-smi lists it; memory in MiB."""

    index: int
    name: str
    memory_mib: int | None = None
    uuid: str = ""
    driver: str = ""  #: version of the kernel's driver
    parts: tuple[MigFacts, ...] = ()  #: with MIG only these can compute, one to a process


def parse(query: str, listing: str = "") -> tuple[GpuFacts, ...]:
    """GPUs of the query's table, with the MIG parts of the listing; none where there is no table."""
    parts = _parts(listing)
    found = []
    for line in query.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) < 3 or not fields[0].isdigit():
            continue
        index = int(fields[0])
        found.append(
            GpuFacts(
                index=index,
                name=fields[1],
                memory_mib=int(fields[2]) if fields[2].isdigit() else None,
                uuid=fields[3] if len(fields) > 3 else "",
                driver=fields[4] if len(fields) > 4 else "",
                parts=parts.get(index, ()),
            )
        )
    return tuple(found)


def problem(query: str) -> str | None:
    """What nvidia-smi says instead of a table; None where it is not there or has one."""
    if parse(query):
        return None
    words = " ".join(query.split())
    return "nvidia-smi did not answer in time" if words == "Killed" else words[:300] or None


def _parts(listing: str) -> dict[int, tuple[MigFacts, ...]]:
    found: dict[int, tuple[MigFacts, ...]] = {}
    gpu = -1
    for line in listing.splitlines():
        if match := _GPU.match(line):
            gpu = int(match[1])
        elif match := _PART.match(line):
            found[gpu] = (*found.get(gpu, ()), MigFacts(index=int(match[2]), profile=match[1], uuid=match[3]))
    return found
