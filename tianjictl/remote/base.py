"""Reaching a host: the four calls that every kind of connection answers alike, and what they answer with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Completed:
    """What a script came to: its exit status, and the bytes that it wrote, free of anything a login shell added."""

    status: int
    out: bytes = b""
    err: bytes = b""
    before: bytes = field(default=b"", compare=False)  #: what a login shell wrote on standard output ahead of it

    @property
    def text(self) -> str:
        """Standard output as text, without the last line break; what is not UTF-8 is replaced."""
        return self.out.decode("utf-8", "replace").removesuffix("\n")

    @property
    def complaint(self) -> str:
        """The last line on standard error, or the exit status where there is none."""
        lines = self.err.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self.status}"


class Connection(Protocol):
    """An open way to one host, for one thread at a time.

    Whatever goes wrong with the way itself raises HostFailure or CommandTimedOut, never a bare OSError; a script that
    fails is no such failure, its status says so.
    """

    @property
    def host(self) -> str:
        """The host's name in the inventory."""

    def run(self, script: str, *args: str, timeout_s: float | None = None) -> Completed:
        """Run a POSIX shell script with `args` as $1, $2, …, and wait; it and its process group end with this call.

        Whoever is on the host can see script and `args` in its process table: secrets go into a file, by `put`.
        Standard input is empty. A script that is not done in time (`deadlines.command_s` if none is given) is killed.
        """

    def put(self, content: bytes | Path, target: str, *, mode: int = 0o600, timeout_s: float | None = None) -> None:
        """Write a file on the host, whole or not at all, with these permissions; `~/` is the user's home."""

    def get(self, source: str, *, timeout_s: float | None = None) -> bytes:
        """The content of a file on the host; RemoteFileProblem where it cannot be read."""

    def close(self) -> None:
        """End the connection, and with it whatever `run` has going; may be called twice."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
