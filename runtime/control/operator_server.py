"""The operator's door: a Unix socket of mode 0600 in the run folder, one JSON line each way. Never blocks for long."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.operator import REQUEST, OperatorRequest, Reply, short_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = logging.getLogger(__name__)

_MAX_REQUEST_BYTES = 64 << 10
_SEND_TIMEOUT_S = 0.5  #: a reader that takes longer for one answer is dropped
_MAX_CONNECTIONS = 64


class OperatorServer:
    """Listens at `path`; a socket that a dead predecessor left there is replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connections: dict[int, tuple[socket.socket, bytearray]] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        # It gets its name when it listens: whoever sees the name can connect.
        unnamed = path.with_name(f".{path.name}.{os.getpid()}")
        unnamed.unlink(missing_ok=True)
        before = os.umask(0o177)  # no moment at which others could connect
        try:
            with short_path(unnamed) as name:
                self._listener.bind(name)
        finally:
            os.umask(before)
        self._listener.listen(16)
        unnamed.replace(path)

    def descriptors(self) -> tuple[int, ...]:
        """What to wait on before `serve`."""
        if len(self._connections) >= _MAX_CONNECTIONS:
            return tuple(self._connections)
        return (self._listener.fileno(), *self._connections)

    def serve(self, ready: set[int], answer: Callable[[OperatorRequest], Reply]) -> None:
        """Answer what has arrived on the descriptors of `ready`."""
        if self._listener.fileno() in ready:
            self._accept()
        for descriptor in ready & self._connections.keys():
            self._read(descriptor, answer)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            connection, _ = self._listener.accept()
            connection.settimeout(_SEND_TIMEOUT_S)
            self._connections[connection.fileno()] = (connection, bytearray())

    def _read(self, descriptor: int, answer: Callable[[OperatorRequest], Reply]) -> None:
        connection, pending = self._connections[descriptor]
        try:
            received = connection.recv(_MAX_REQUEST_BYTES)
            pending += received
            while b"\n" in pending:
                line, _, rest = bytes(pending).partition(b"\n")
                pending[:] = rest
                connection.sendall(reply_to(line, answer).model_dump_json().encode() + b"\n")
            if not received or len(pending) > _MAX_REQUEST_BYTES:
                self._drop(descriptor)
        except OSError as error:
            log.info("operator.dropped error=%s", error)
            self._drop(descriptor)

    def _drop(self, descriptor: int) -> None:
        connection, _ = self._connections.pop(descriptor)
        connection.close()

    def close(self) -> None:
        """Hang up on everybody and take the socket away."""
        for descriptor in tuple(self._connections):
            self._drop(descriptor)
        self._listener.close()
        self._path.unlink(missing_ok=True)


def reply_to(line: bytes, answer: Callable[[OperatorRequest], Reply]) -> Reply:
    """The answer to one request line; a malformed one is told what was expected."""
    try:
        request = REQUEST.validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return Reply(ok=False, error=f"not a request: {where + ': ' if where else ''}{first['msg']}")
    return answer(request)
