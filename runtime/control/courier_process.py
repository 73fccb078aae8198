"""A courier's process and the agent's end of its socket. Nothing here waits."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from runtime.contract.operator import short_path
from runtime.courier.orders import EVENTS, MESSAGE_BYTES, Answer, Lost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import BaseModel

_UCRED = struct.Struct("=iII")
_LONGEST_NAME = 100  # of a Unix address, which has 108 bytes


class Started(Protocol):
    """What was started: a `subprocess.Popen`, or what answers like one."""

    def poll(self) -> int | None:
        """Its exit code, or minus the signal; None while it runs."""

    def send_signal(self, number: int) -> None:
        """To the process, if it is there."""


class CourierProcess:
    """Starts a courier that connects to the socket `path` (0600). OSError where the machine has no room for it."""

    def __init__(self, path: Path, log: Path, start: Callable[[Path, Path], Started]) -> None:
        """`start` gets a name for the socket by which it can be reached, and the log."""
        self._path = path
        self._log = log
        self._folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._channel: socket.socket | None = None
        self._pidfd: int | None = None
        self.pid: int | None = None  #: of the courier itself, once it has connected
        self._listener: socket.socket | None = self._listen()
        try:
            self._process = start(self._reachable(), log)
        except BaseException:
            self.hang_up()
            raise

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._path.unlink(missing_ok=True)
        with short_path(self._path) as name:
            listener.bind(name)
        self._path.chmod(0o600)
        listener.listen(1)  # only now can anybody connect
        return listener

    def _reachable(self) -> Path:
        """A name by which the courier can connect, however deep the run folder lies."""
        if len(str(self._path)) <= _LONGEST_NAME:
            return self._path
        return Path(f"/proc/{os.getpid()}/fd/{self._folder}/{self._path.name}")

    def descriptors(self) -> list[int]:
        """Readable when there is something to `receive`."""
        return [end.fileno() for end in (self._channel or self._listener,) if end is not None]

    def receive(self) -> list[Answer | Lost]:
        """What the courier has said; also lets it in."""
        if self._listener is not None:
            self._accept(self._listener)
        events: list[Answer | Lost] = []
        while self._channel is not None:
            try:
                text = self._channel.recv(MESSAGE_BYTES)
            except BlockingIOError:
                break
            except ConnectionError:
                text = b""
            if not text:
                self.hang_up()  # it is gone, or about to be
                break
            events.append(EVENTS.validate_json(text))
        return events

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError, ProcessLookupError):
            channel, _ = listener.accept()
            channel.setblocking(False)
            peer = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
            pid = _UCRED.unpack(peer)[0]
            self._pidfd = os.pidfd_open(pid)
            self.pid, self._channel, self._listener = pid, channel, None
            listener.close()
            self._path.unlink(missing_ok=True)

    def send(self, order: BaseModel, descriptors: Sequence[int]) -> bool:
        """Send an order; False where the courier is gone."""
        if self._channel is None:
            return False
        try:
            socket.send_fds(self._channel, [order.model_dump_json().encode()], descriptors)
        except OSError:
            return False
        return True

    def status(self) -> int | None:
        """Its exit code, or minus the signal; None while it runs."""
        return self._process.poll()

    def last_words(self) -> str | None:
        """The last line of its log."""
        try:
            lines = self._log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return None
        return lines[-1] if lines else None

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal the courier, and its launcher where that is another process."""
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)
        self._process.send_signal(number)

    def hang_up(self) -> None:
        """Close the socket, upon which the courier leaves. Its end still has to be seen by `status`."""
        for end in (self._channel, self._listener):
            if end is not None:
                end.close()
        if self._listener is not None:
            self._path.unlink(missing_ok=True)
        self._channel = self._listener = None

    def close(self) -> None:
        """Give everything back, once it has ended."""
        self.hang_up()
        for descriptor in (self._pidfd, self._folder):
            if descriptor is not None:
                os.close(descriptor)
        self._pidfd = None
