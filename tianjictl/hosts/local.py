"""This machine as a host: reads files, runs commands, knows its own affinity. No connection to open or to lose."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LOCALHOST = "localhost"  #: the name of this machine where no inventory gives it another
READ_LIMIT = 1 << 16  #: bytes of one file: facts are short, and /proc/cpuinfo of a big machine is not


@dataclass(frozen=True, slots=True)
class LocalHost:
    """Reads facts of this machine; the same calls that a host across SSH answers."""

    name: str = LOCALHOST

    def read(self, patterns: Sequence[str]) -> dict[str, str]:
        """Text of every readable file that matches a shell pattern; what cannot be read is left out."""
        found: dict[str, str] = {}
        for pattern in patterns:
            for path in _matching(pattern):
                try:
                    with Path(path).open("rb") as file:
                        found[path] = file.read(READ_LIMIT).decode("utf-8", "replace")
                except OSError:
                    continue  # absent on this machine, or not ours to read: a missing fact, not an error
        return found

    def run(self, argv: Sequence[str], *, timeout_s: float = 5.0) -> str | None:
        """Standard output of a command, or None where it is missing, fails or takes too long."""
        program = shutil.which(argv[0])
        if program is None:
            return None
        try:
            done = subprocess.run(
                [program, *argv[1:]], capture_output=True, text=True, timeout=timeout_s, check=True, errors="replace"
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout

    def affinity(self) -> tuple[int, ...] | None:
        """CPU numbers that this process may run on, as the kernel says."""
        return tuple(sorted(os.sched_getaffinity(0)))

    def disk(self, folder: Path) -> tuple[str, int, int] | None:
        """(path, total bytes, free bytes) where `folder` is or will be made; None where that cannot be asked."""
        for place in (folder, *folder.parents):
            try:
                usage = shutil.disk_usage(place)
            except OSError:
                continue  # not made yet: ask its parent
            return str(place), usage.total, usage.free
        return None

    def software(self, packages: Iterable[str]) -> tuple[str, dict[str, str]]:
        """Version of Python, and of those of the packages that are installed."""
        found = {}
        for name in packages:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
        return python_version(), found


def _matching(pattern: str) -> list[str]:
    """Paths that match an absolute shell pattern, in order; a pattern without wildcards is the path itself."""
    if not any(sign in pattern for sign in "*?["):
        return [pattern]
    return sorted(str(path) for path in Path("/").glob(pattern.lstrip("/")))
