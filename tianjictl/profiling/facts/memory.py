"""Memory and swap of a host, from /proc/meminfo and the limits of its control groups."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runtime.contract.model import Document
from tianjictl.profiling.facts.sources import Source

_UNKNOWN_MEMORY = 1 << 30  #: assumed where a host does not say: enough for one small group, no more


class MemoryFacts(Document):
    """Bytes; `limit_bytes` is the smallest of what is installed and what control groups allow."""

    total_bytes: int
    available_bytes: int | None = None
    limit_bytes: int
    sources: tuple[Source, ...] = ()


class SwapFacts(Document):
    """Bytes; `swappiness` as the kernel counts it, 0 to 200, None where it does not say."""

    total_bytes: int = 0
    free_bytes: int = 0
    swappiness: int | None = None

    @property
    def used_bytes(self) -> int:
        return self.total_bytes - self.free_bytes


def parse(files: Mapping[str, str], limits: tuple[tuple[str, int], ...]) -> MemoryFacts:
    """Memory, where `limits` are (file, bytes) of the control groups."""
    kib = _meminfo(files)
    says = [("MemTotal", kib["MemTotal"] * 1024)] if "MemTotal" in kib else []
    says += limits
    smallest = min((size for _, size in says), default=_UNKNOWN_MEMORY)
    return MemoryFacts(
        total_bytes=says[0][1] if says else _UNKNOWN_MEMORY,
        available_bytes=kib["MemAvailable"] * 1024 if "MemAvailable" in kib else None,
        limit_bytes=smallest,
        sources=tuple(Source(name=name, says=f"{size / 2**30:.2f} GiB") for name, size in says),
    )


def parse_swap(files: Mapping[str, str]) -> SwapFacts | None:
    """Swap; None where /proc/meminfo does not speak of it."""
    kib = _meminfo(files)
    if "SwapTotal" not in kib:
        return None
    swappiness = files.get("/proc/sys/vm/swappiness", "").strip()
    return SwapFacts(
        total_bytes=kib["SwapTotal"] * 1024,
        free_bytes=kib.get("SwapFree", 0) * 1024,
        swappiness=int(swappiness) if swappiness.isdigit() else None,
    )


def _meminfo(files: Mapping[str, str]) -> dict[str, int]:
    return {match[1]: int(match[2]) for match in re.finditer(r"(\w+):\s+(\d+) kB", files.get("/proc/meminfo", ""))}
