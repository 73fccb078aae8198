"""Sending a framed script over an SSH channel and collecting its answer, in time."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tianjictl.remote.framing import Answer

_PIECE = 1 << 16


class Channel(Protocol):
    """What is used of an SSH library's channel."""

    eof_received: Any
    closed: Any

    def fileno(self) -> int: ...

    def settimeout(self, timeout: float) -> None: ...

    def sendall(self, data: bytes) -> None: ...

    def recv_ready(self) -> bool: ...

    def recv(self, nbytes: int) -> bytes: ...

    def recv_stderr_ready(self) -> bool: ...

    def recv_stderr(self, nbytes: int) -> bytes: ...

    def shutdown_write(self) -> None: ...


def converse(channel: Channel, answer: Answer, framed: bytes, payload: Iterator[bytes] | None, deadline: float) -> None:
    """Send the script, and its input once it begins; collect until both streams have come to the frame's end.

    `deadline` is of the monotonic clock; TimeoutError when it passes.
    """
    waiting = select.poll()
    waiting.register(channel.fileno(), select.POLLIN)
    channel.settimeout(_left(deadline))
    channel.sendall(framed)
    while True:
        ended = channel.eof_received or channel.closed
        while channel.recv_ready():
            answer.feed(out=channel.recv(_PIECE))
        while channel.recv_stderr_ready():
            answer.feed(err=channel.recv_stderr(_PIECE))
        if answer.whole or ended:
            return
        if payload is not None and answer.begun:
            for piece in payload:
                channel.settimeout(_left(deadline))
                channel.sendall(piece)
            channel.shutdown_write()
            payload = None
        waiting.poll(_left(deadline) * 1000)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
