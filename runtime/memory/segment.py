"""A stretch of memory: a memfd mapping that several processes share, or an anonymous one for a single process."""

from __future__ import annotations

import fcntl
import mmap
import os

WORD = 8  #: bytes of one header word


class Segment:
    """Owns a mapping and, unless anonymous, the descriptor behind it.

    memfd leaves nothing behind: the memory goes when the last process that maps or holds it is gone, however it ends.
    """

    def __init__(self, mapping: mmap.mmap, fd: int | None, name: str) -> None:
        self.name = name
        self.fd = fd
        self.memory = memoryview(mapping)
        self._mapping = mapping

    @classmethod
    def create(cls, name: str, nbytes: int) -> Segment:
        """A new zeroed memfd of `nbytes`. Closed on exec; its size is sealed, so no holder can pull pages from others.

        Raises OSError when the machine refuses (memory, descriptors).
        """
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, nbytes)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            return cls(mmap.mmap(fd, nbytes), fd, name)
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def anonymous(cls, nbytes: int, name: str = "anonymous") -> Segment:
        """Zeroed memory of this process (and of children it forks); no descriptor."""
        return cls(mmap.mmap(-1, nbytes), None, name)

    @classmethod
    def attach(cls, fd: int, name: str = "attached") -> Segment:
        """Map a segment that another process made. Takes over `fd`, which `close` closes.

        Raises ValueError for an empty file, OSError for a descriptor that cannot be mapped.
        """
        nbytes = os.fstat(fd).st_size
        if nbytes == 0:
            raise ValueError(f"segment {name!r}: descriptor {fd} is empty")
        return cls(mmap.mmap(fd, nbytes), fd, name)

    @property
    def nbytes(self) -> int:
        """Size of the mapping in bytes."""
        return len(self.memory)

    def words(self, offset: int, count: int) -> memoryview[int]:
        """`count` signed 8-byte words from byte `offset`; every access is one aligned load or store.

        A cast memoryview, not an array: indexing it gives a Python int at a quarter of the price.
        """
        if offset % WORD:
            raise ValueError(f"segment {self.name!r}: offset {offset} is not a multiple of {WORD}")
        return self.memory[offset : offset + count * WORD].cast("q")

    def close(self) -> None:
        """Give the descriptor back at once, and the memory as soon as no view of it is left. May be called twice."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        try:
            self.memory.release()
            self._mapping.close()
        except BufferError:
            # Arrays over the mapping are still alive somewhere; the mapping goes with the last of them.
            return
