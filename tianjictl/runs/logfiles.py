"""The log files of a run: one for each life of each component."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.contract.paths import RunPaths

_NAME = re.compile(r"(?P<component>.+?)(?:\.(?P<attempt>\d+))?\.log")
_BLOCK = 65536


@dataclass(frozen=True, slots=True, order=True)
class LogFile:
    """What one life of a component wrote; attempt 0 where one file takes all lives, as for the agent."""

    component: str
    attempt: int
    path: Path


def log_files(paths: RunPaths) -> list[LogFile]:
    """All log files, by component, then attempt. A component's name sorts by its number: actor-2 before actor-10."""
    names = paths.logs.iterdir() if paths.logs.is_dir() else ()
    matches = ((_NAME.fullmatch(path.name), path) for path in names)
    found = [LogFile(match["component"], int(match["attempt"] or 0), path) for match, path in matches if match]
    return sorted(found, key=lambda file: (_natural(file.component), file.attempt))


@dataclass(frozen=True, slots=True)
class Tail:
    """The last lines of a file, and the offset at which they end: what comes later begins there."""

    lines: list[str]
    end: int


def tail(path: Path, lines: int, *, whole: bool = False) -> Tail:
    """The last `lines` lines of a file, read from its end; an unreadable file has none.

    With `whole` a last line that is not finished is left for later.
    """
    data, end = b"", 0
    try:
        with path.open("rb") as file:
            position = end = file.seek(0, os.SEEK_END)
            while position > 0 and data.count(b"\n") <= lines:
                step = min(_BLOCK, position)
                position -= step
                file.seek(position)
                data = file.read(step) + data
    except OSError:
        return Tail([], end)
    if whole and not data.endswith(b"\n"):
        data, _, unfinished = data.rpartition(b"\n")
        end -= len(unfinished)
    found = data.decode(errors="replace").removesuffix("\n").split("\n") if data else []
    return Tail(found[-lines:] if lines else [], end)


def last_words(paths: RunPaths, components: set[str], *, lines: int = 12) -> list[str]:
    """The end of the newest non-empty log of each of `components`, each line led by the component's name."""
    newest: dict[str, LogFile] = {}
    for file in log_files(paths):
        if file.component in components and file.path.stat().st_size > 0:
            newest[file.component] = file
    return [
        f"{file.component}.{file.attempt}: {line}" for file in newest.values() for line in tail(file.path, lines).lines
    ]


def _natural(name: str) -> tuple[str, int]:
    stem, _, number = name.rpartition("-")
    return (stem, int(number)) if number.isdigit() else (name, -1)
