"""Names inside the checkpoints folder of a run."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

WRITER_LOCK = ".writer"  #: locked by the process that will complete a partial checkpoint
FAILURE_SUFFIX = ".failed"  #: of a note that a component could not write its shard, and why

_STEP = re.compile(r"(?:step|\.tmp|\.replaced)-(\d{12,})")


def step_folder(checkpoints: Path, step: int) -> Path:
    """A complete checkpoint."""
    return checkpoints / f"step-{step:012d}"


def partial_folder(checkpoints: Path, step: int) -> Path:
    """Where the shards of a checkpoint gather until its manifest is written."""
    return checkpoints / f".tmp-{step:012d}"


def copy_folder(checkpoints: Path, step: int) -> Path:
    """Where a copy of another node's checkpoint gathers until it has been compared with its manifest."""
    return checkpoints / f".tmp-copy-{step:012d}"


def replaced_folder(checkpoints: Path, step: int) -> Path:
    """An older checkpoint of the same step, for the moment between two renames."""
    return checkpoints / f".replaced-{step:012d}"


def failure_note(component: str, code: int | None) -> str:
    """The name of a component's note; it bears the error's number, as a full disk takes names but no content."""
    return f"{component}.{code or 0}{FAILURE_SUFFIX}"


def reason_of_note(name: str) -> tuple[str, str]:
    """Component and reason that the name of a note tells."""
    component, _, code = name.removesuffix(FAILURE_SUFFIX).rpartition(".")
    number = int(code) if code.isdecimal() else 0
    return component or code, os.strerror(number) if number else "its log says why"


def step_of(folder: Path) -> int | None:
    """The step in a folder's name, or none where it is no name of ours."""
    match = _STEP.fullmatch(folder.name)
    return int(match[1]) if match else None
