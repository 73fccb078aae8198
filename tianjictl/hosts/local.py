"""This machine as a host: reads files, runs commands, knows its own affinity. No connection to open or to lose."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING

from tianjictl.profiling.facts.survey import Answers, answers, pieces, script

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LOCALHOST = "localhost"  #: the name of this machine where no inventory gives it another
READ_LIMIT = 1 << 16  #: bytes of one file: facts are short, and /proc/cpuinfo of a big machine is not

ASK_TIMEOUT_S = 60.0  #: of all questions together; each slow one has a shorter time of its own


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

    def ask(self, run_folder: Path, *, devices: bool) -> Answers:
        """What this machine's programs say; nothing where there is no shell to run them."""
        mark = f"@@{secrets.token_hex(8)}"
        words = ["/bin/sh", "-c", script(devices=devices), "sh", mark, str(run_folder)]
        sent = time.time()
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_TIMEOUT_S, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return Answers({}, None)
        return answers(pieces(done.stdout.decode("utf-8", "replace"), mark), sent=sent, received=time.time())

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
