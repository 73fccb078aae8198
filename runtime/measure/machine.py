"""What the machine gives whatever the job: copying memory, writing checkpoints."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

_COPY_BYTES = 32 << 20  #: larger than caches that are one core's own
_WRITE_BYTES = 16 << 20
_MB = 1e6


class Copying:
    """Copies one block into another, both touched before."""

    def __init__(self) -> None:
        self._source = np.ones(_COPY_BYTES, np.uint8)
        self._target = np.ones(_COPY_BYTES, np.uint8)  # zeros would be pages that do not exist yet

    def mb_per_s(self) -> float:
        began = time.perf_counter()
        np.copyto(self._target, self._source)
        return _COPY_BYTES / _MB / (time.perf_counter() - began)


def write_mb_per_s(folder: Path) -> float:
    """Write a file as a checkpoint is written, flushed to disk, and remove it again."""
    path = folder / f".measure-{os.getpid()}.tmp"
    data = bytes(_WRITE_BYTES)
    began = time.perf_counter()
    try:
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return _WRITE_BYTES / _MB / (time.perf_counter() - began)
    finally:
        path.unlink(missing_ok=True)
