"""A checkpoint's files on their way: out of a folder in parts, and into one, hidden until they are whole."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from runtime.control.transfer import PART_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.contract.messages import Part

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,100}\.(safetensors|json|\d{1,4}\.failed)")


def is_plain(name: str) -> bool:
    """Whether a name from outside can be a checkpoint's file, and nothing else anywhere."""
    return _PLAIN.fullmatch(name) is not None


class Reader:
    """Reads parts of the files of one folder; keeps the file open that is on its way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._name: str | None = None
        self._descriptor = -1

    def read(self, part: Part) -> bytes:
        """The bytes of a part. OSError where the file cannot be read, or has become another."""
        if part.name != self._name:
            self.close()
            self._descriptor = os.open(self.folder / part.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            self._name = part.name
        wanted = min(PART_BYTES, part.size - part.offset)
        blob = os.pread(self._descriptor, wanted, part.offset)
        if len(blob) != wanted:
            raise OSError(f"{self.folder / part.name} has become shorter")
        return blob

    def close(self) -> None:
        """Let go of the file."""
        if self._name is not None:
            os.close(self._descriptor)
            self._name = None


class Landing:
    """One file on its way in; whoever sees its name may count on it.

    OSError, for example of a full disk, leaves nothing behind.
    """

    def __init__(self, folder: Path, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.received = 0
        self._target = folder / name
        self._hidden = folder / f".{name}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor: int | None = os.open(self._hidden, flags, 0o644)

    def fits(self, name: str, offset: int) -> bool:
        """Whether this is the part that comes next."""
        return name == self.name and offset == self.received and self._descriptor is not None

    def put(self, blob: bytes) -> bool:
        """Take the next part; True when the file is whole and has its name. ValueError where it is no part of it."""
        assert self._descriptor is not None
        if self.received + len(blob) > self.size or not (blob or self.size == 0):
            self.abandon()
            raise ValueError(f"{self.name} was announced with {self.size} bytes, and what came is not that")
        try:
            while blob:
                blob = blob[self._wrote(os.write(self._descriptor, blob)) :]
            if self.received < self.size:
                return False
            self._close()
            self._hidden.replace(self._target)
        except OSError:
            self.abandon()
            raise
        return True

    def _wrote(self, count: int) -> int:
        self.received += count
        return count

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def abandon(self) -> None:
        """Leave nothing of it; safe to call twice, and after the file has become whole."""
        self._close()
        with suppress(OSError):  # the disk that failed may fail again; nobody takes a hidden file for a part
            self._hidden.unlink(missing_ok=True)
