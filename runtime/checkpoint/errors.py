"""What goes wrong with checkpoints, in words that say what, where and what to do next."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class CheckpointError(Exception):
    """A checkpoint is missing, incomplete, damaged or cannot be written; `hint` is the next step."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


_HINTS = {
    errno.ENOSPC: "free some space there, or keep fewer checkpoints (checkpoint.keep)",
    errno.EDQUOT: "free some of your quota there, or keep fewer checkpoints (checkpoint.keep)",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f)",
    errno.EACCES: "make the folder writable for this user",
    errno.EPERM: "make the folder writable for this user",
    errno.EROFS: "mount the file system writable, or put the runs elsewhere (TIANJICTL_HOME)",
}


def hint_of(reason: str) -> str | None:
    """What helps against what the system says in these words; none where nothing is known to."""
    return next((hint for number, hint in _HINTS.items() if os.strerror(number) == reason), None)


@contextmanager
def writing(what: str, folder: Path) -> Iterator[None]:
    """Turn an OSError inside into a CheckpointError; earlier checkpoints are never touched by a failed one."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise CheckpointError(
            f"{what} could not be written in {folder}: {reason}; earlier checkpoints are untouched",
            hint=_HINTS.get(error.errno or 0),
        ) from error
