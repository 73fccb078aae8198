"""What every connection that ends in a shell has in common: scripts, and files by way of scripts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from tianjictl.remote import files
from tianjictl.remote.deadlines import Deadlines
from tianjictl.remote.framing import new_nonce

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tianjictl.remote.base import Completed


class ShellConnection(ABC):
    """A Connection that needs no more than a way to have one script run."""

    def __init__(self, host: str, deadlines: Deadlines | None = None) -> None:
        self._host = host
        self._deadlines = deadlines or Deadlines()

    @property
    def host(self) -> str:
        return self._host

    def run(self, script: str, *args: str, timeout_s: float | None = None) -> Completed:
        return self._exchange(script, args, None, self._limit(timeout_s))

    def put(self, content: bytes | Path, target: str, *, mode: int = 0o600, timeout_s: float | None = None) -> None:
        args = files.put_arguments(files.size_of(content), target, mode, new_nonce())
        done = self._exchange(files.PUT, args, files.chunks_of(content), self._limit(timeout_s))
        files.check(done, self._host, target)

    def get(self, source: str, *, timeout_s: float | None = None) -> bytes:
        done = self.run(files.GET, source, timeout_s=timeout_s)
        files.check(done, self._host, source)
        return done.out

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _exchange(
        self, script: str, args: tuple[str, ...], payload: Iterator[bytes] | None, limit_s: float
    ) -> Completed:
        """Run a script, feed it `payload` if there is one, and wait at most `limit_s`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _limit(self, timeout_s: float | None) -> float:
        return self._deadlines.command_s if timeout_s is None else timeout_s
