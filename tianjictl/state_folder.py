"""A folder of the operator's own state, made if need be and tried before anything that takes time depends on it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tianjictl.errors import UsageProblem

if TYPE_CHECKING:
    from pathlib import Path


def open_folder(folder: Path, what: str, *, mode: int = 0o777) -> Path:
    """`folder`, which holds `what` ("runs"); UsageProblem where nothing can be written in it. `mode`: of a new one."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=mode)
        trial = folder / f".trial-{os.getpid()}"
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise UsageProblem(
            f"{what} cannot be kept in {folder}: {error.strerror or error}",
            hint="set TIANJICTL_HOME to a folder you may write in",
        ) from error
    return folder
