"""The kernel's way to write sets of CPUs: `0-3,8,10-11`."""

from __future__ import annotations

from collections.abc import Iterable


def parse_cpulist(text: str) -> tuple[int, ...]:
    """CPU numbers in rising order; an empty or unreadable text gives none."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.strip().partition("-")
        last = last.partition(":")[0] or first
        if first.isdigit() and last.isdigit():
            cpus.update(range(int(first), int(last) + 1))
    return tuple(sorted(cpus))


def format_cpulist(cpus: Iterable[int]) -> str:
    """The shortest text that `parse_cpulist` reads back."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
