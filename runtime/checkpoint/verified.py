"""What was found when every byte of a checkpoint was compared; it holds until one of its files changes.

So a list need not read gigabytes to know of damage that somebody has found before.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from pydantic import Field, TypeAdapter, ValidationError

from runtime.contract.files import write_whole
from runtime.contract.model import View

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NAME = ".verified.json"


class Verified(View):
    """One checkpoint folder as it was. `problems` is empty where every byte was as written."""

    stamp: dict[str, tuple[int, int]] = Field(default_factory=dict)  #: file → bytes, time of change in nanoseconds
    problems: tuple[str, ...] = ()


_NOTES = TypeAdapter(dict[str, Verified])


def recall(folder: Path) -> Verified | None:
    """What was found in `folder`; none where nobody has looked since its files last changed."""
    found = _read(folder.parent).get(folder.name)
    return found if found is not None and found.stamp == stamp_of(folder) else None


def keep(checkpoints: Path, found: Mapping[Path, Verified]) -> None:
    """Note what was found, and forget what is gone. Where it cannot be written, lists know of sizes alone."""
    known = {name: note for name, note in _read(checkpoints).items() if (checkpoints / name).is_dir()}
    known |= {folder.name: note for folder, note in found.items()}
    with contextlib.suppress(OSError):
        write_whole(checkpoints / _NAME, _NOTES.dump_json(known).decode())


def stamp_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of each file; empty where the folder cannot be read."""
    try:
        return {entry.name: ((about := entry.stat()).st_size, about.st_mtime_ns) for entry in os.scandir(folder)}
    except OSError:
        return {}


def _read(checkpoints: Path) -> dict[str, Verified]:
    try:
        return _NOTES.validate_json((checkpoints / _NAME).read_bytes())
    except (OSError, ValidationError):
        return {}
