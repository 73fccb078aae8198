"""The log files of a run's folder: one for each life of each component; read from their ends, or on from an offset."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_NAME = re.compile(r"(?P<component>.+?)(?:\.(?P<attempt>\d+))?\.log")
_BLOCK = 65536


@dataclass(frozen=True, slots=True, order=True)
class LogFile:
    """What one life of a component wrote; attempt 0 where one file takes all lives, as for the agent."""

    component: str
    attempt: int
    path: Path


def files_in(logs: Path) -> list[LogFile]:
    """All log files, by component, then attempt. A component's name sorts by its number: actor-2 before actor-10."""
    names = logs.iterdir() if logs.is_dir() else ()
    matches = ((_NAME.fullmatch(path.name), path) for path in names)
    found = [LogFile(match["component"], int(match["attempt"] or 0), path) for match, path in matches if match]
    return sorted(found, key=lambda file: (natural(file.component), file.attempt))


def wants(component: str, chosen: Collection[str]) -> bool:
    """Whether a component is among those chosen by name or by role; none chosen means all."""
    base = component.partition("@")[0]  # what there may be one of on several hosts
    role = base.partition(".")[0] if "." in base else base.rpartition("-")[0]
    return not chosen or not {component, base, role}.isdisjoint(chosen)


@dataclass(frozen=True, slots=True)
class Tail:
    """The last lines of a file, and the offset at which they end: what comes later begins there."""

    lines: list[str]
    end: int


def tail(path: Path, lines: int | None, *, whole: bool = False) -> Tail:
    """The last `lines` lines of a file (all of them without a number), read from its end; an unreadable one has none.

    With `whole` a last line that is not finished is left for later.
    """
    data, end = b"", 0
    most = float("inf") if lines is None else lines
    try:
        with path.open("rb") as file:
            position = end = file.seek(0, os.SEEK_END)
            while position > 0 and data.count(b"\n") <= most:
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
    return Tail(found if lines is None else found[-lines:] if lines else [], end)


@dataclass(frozen=True, slots=True)
class Piece:
    """What a log file holds beyond what was known of it: whole lines, and the offset at which they end."""

    component: str
    attempt: int
    name: str  #: of the file
    changed: float  #: seconds since the epoch, by the clock of the machine where it lies
    end: int
    lines: list[str]


def read_on(
    logs: Path, ends: Mapping[str, int], *, lines: int | None = None, chosen: Collection[str] = (), whole: bool = True
) -> list[Piece]:
    """What has been written since `ends` (offsets by file name), and the last `lines` of files that are not in it."""
    pieces = []
    for file in files_in(logs):
        if not wants(file.component, chosen):
            continue
        try:
            found = file.path.stat()
            known = ends.get(file.path.name)
            if known is not None and found.st_size <= known:
                continue
            read = tail(file.path, lines, whole=whole) if known is None else _on_from(file.path, known)
        except OSError:
            continue  # gone between the two looks
        if read.lines or known is None:
            where = file.path.name
            pieces.append(Piece(file.component, file.attempt, where, found.st_mtime, read.end, read.lines))
    return pieces


def _on_from(path: Path, offset: int) -> Tail:
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read()
    data = data[: data.rfind(b"\n") + 1]
    return Tail(data.decode(errors="replace").split("\n")[:-1], offset + len(data))


def natural(name: str) -> tuple[str, int]:
    """A key by which names that end in a number sort by that number."""
    stem, _, number = name.rpartition("-")
    return (stem, int(number)) if number.isdigit() else (name, -1)
