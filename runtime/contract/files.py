"""Files that appear whole: a reader sees the old content or the new, never half of either."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path


def write_whole(path: Path, data: bytes | str, *, mode: int = 0o644, durable: bool = False) -> None:
    """Write to a sibling temporary file, then rename it into place.

    `durable` also flushes file and folder to disk (fsync), for what must survive a power cut. On any error the
    temporary file is removed and the old content stays.
    """
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new names inside `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_line(path: Path, line: str) -> None:
    """Append one line with a single write, so that concurrent appenders never interleave inside a line.

    A disk that fills up in mid-line raises OSError and keeps nothing of the line.
    """
    raw = line.rstrip("\n").encode() + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        written = os.write(descriptor, raw)
        if written < len(raw):
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)
