"""A host that is not there, for tests: files in memory, scripts answered from a table, failures on demand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tianjictl.remote.base import Completed
from tianjictl.remote.failures import ConnectionLost, Phase, RemoteFileProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tianjictl.errors import TianjiError

Answering = Completed | Callable[..., Completed]


class FakeConnection:
    """Answers like a real connection. `ran` lists the scripts with their arguments, `files` what was put.

    `answers` maps a script to what it comes to, or to a function of its arguments. A script that is not in it is
    answered like an empty one. Set `failure` to have every further call raise it.
    """

    def __init__(self, host: str, answers: Mapping[str, Answering] | None = None) -> None:
        self._host = host
        self.answers = dict(answers or {})
        self.files: dict[str, bytes] = {}
        self.modes: dict[str, int] = {}
        self.ran: list[tuple[str, tuple[str, ...]]] = []
        self.failure: TianjiError | None = None
        self.closed = False

    @property
    def host(self) -> str:
        return self._host

    def run(self, script: str, *args: str, timeout_s: float | None = None) -> Completed:  # noqa: ARG002
        self._check()
        self.ran.append((script, args))
        answer = self.answers.get(script, Completed(0))
        return answer if isinstance(answer, Completed) else answer(*args)

    def put(self, content: bytes | Path, target: str, *, mode: int = 0o600, timeout_s: float | None = None) -> None:  # noqa: ARG002
        self._check()
        self.files[target] = content.read_bytes() if isinstance(content, Path) else content
        self.modes[target] = mode

    def get(self, source: str, *, timeout_s: float | None = None) -> bytes:  # noqa: ARG002
        self._check()
        if source not in self.files:
            raise RemoteFileProblem(self._host, source, "No such file or directory")
        return self.files[source]

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.closed:
            raise ConnectionLost(self._host, Phase.CHANNEL, "the connection is closed")
