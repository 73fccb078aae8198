"""Messages between agents and the coordinator over ZeroMQ with CURVE. The only module that knows zmq.

Each run has two key pairs of its own, made by `make_keys`: the coordinator's and the agents'. A connection is let in
only if it proves that it holds the agents' secret key (checked by a ZAP handler inside the same loop, no thread), and
an agent talks only to who holds the coordinator's. Without the key files nobody can read, send or even complete the
handshake. Frames: protocol version, then one JSON message.
"""

from __future__ import annotations

import logging
import math
import os
from typing import TYPE_CHECKING, Generic, TypeVar

import zmq
from pydantic import TypeAdapter, ValidationError
from zmq.utils import z85

from runtime.contract.files import write_whole
from runtime.contract.messages import (
    AGENT_MESSAGE,
    COORDINATOR_MESSAGE,
    PROTOCOL_VERSION,
    AgentMessage,
    CoordinatorMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from runtime.contract.paths import RunPaths

log = logging.getLogger(__name__)

_VERSION = str(PROTOCOL_VERSION).encode()
_ZAP_ENDPOINT = "inproc://zeromq.zap.01"  # fixed by RFC 27
_SOCKET_NAME = "wire.sock"
_MAX_MESSAGE_BYTES = 16 << 20
_QUEUE_LENGTH = 1000

Incoming = TypeVar("Incoming")


class WireError(Exception):
    """The wire cannot be opened: keys missing or readable by others, address in use."""


def make_keys(folder: Path) -> None:
    """Make the run's two key pairs in `folder` (0700), one 0600 file per key; existing keys are kept."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    for owner in ("coordinator", "agent"):
        if (folder / f"{owner}.public").exists():
            continue
        public, secret = zmq.curve_keypair()
        write_whole(folder / f"{owner}.secret", secret, mode=0o600)
        write_whole(folder / f"{owner}.public", public, mode=0o600)  # last: its presence says the pair is whole


def _key(folder: Path, name: str) -> bytes:
    path = folder / name
    try:
        if path.stat().st_mode & 0o077:
            raise WireError(f"{path} can be read by others: chmod 600 it")
        return path.read_bytes().strip()
    except FileNotFoundError as error:
        raise WireError(f"the run's key {path} is missing") from error


class _Endpoint(Generic[Incoming]):
    """What both ends share: a context of their own, decoding, waiting, closing."""

    def __init__(self, folder: Path, kind: int, incoming: TypeAdapter[Incoming], linger_s: float) -> None:
        # The descriptor gives the socket a short name however deep the run folder lies (a Unix address has 108 bytes).
        # It must stay open: ZeroMQ uses the name again when it reconnects and when it removes the socket.
        self._folder = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._address = f"ipc:///proc/self/fd/{self._folder}/{_SOCKET_NAME}"
        self._incoming = incoming
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(kind)
        self._socket.setsockopt(zmq.LINGER, int(linger_s * 1000))
        self._socket.setsockopt(zmq.MAXMSGSIZE, _MAX_MESSAGE_BYTES)
        self._socket.setsockopt(zmq.SNDHWM, _QUEUE_LENGTH)
        self._socket.setsockopt(zmq.RCVHWM, _QUEUE_LENGTH)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._extra: set[int] = set()

    def wait(self, timeout_s: float, descriptors: Iterable[int] = ()) -> set[int]:
        """Sleep until a message, one of `descriptors` is readable, or the timeout; returns the readable descriptors."""
        wanted = set(descriptors)
        for gone in self._extra - wanted:
            self._poller.unregister(gone)
        for new in wanted - self._extra:
            self._poller.register(new, zmq.POLLIN)
        self._extra = wanted
        ready = dict(self._poller.poll(max(0, math.ceil(timeout_s * 1000))))
        return wanted & ready.keys()

    def _decode(self, frames: list[bytes]) -> Incoming | None:
        if len(frames) != 2 or frames[0] != _VERSION:
            log.warning("wire.refused reason=protocol expected=%s got=%r", PROTOCOL_VERSION, frames[:1])
            return None
        try:
            return self._incoming.validate_json(frames[1])
        except ValidationError as error:
            log.warning("wire.refused reason=invalid error=%s", error)
            return None

    def _take(self) -> list[bytes] | None:
        try:
            return self._socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None

    def _put(self, frames: list[bytes]) -> bool:
        try:
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            return False
        return True

    def close(self) -> None:
        """Let go of socket, context and descriptor; waits at most the linger time for what is still queued."""
        if self._socket.closed:
            return
        self._socket.close()
        self._context.term()
        os.close(self._folder)


class CoordinatorWire(_Endpoint[AgentMessage]):
    """The coordinator's end: one socket for all agents. One thread; nothing here blocks but `wait`."""

    def __init__(self, paths: RunPaths) -> None:
        super().__init__(paths.root, zmq.ROUTER, AGENT_MESSAGE, linger_s=0.5)
        self._paths = paths
        self._zap = self._context.socket(zmq.REP)
        try:
            self._allowed = z85.decode(_key(paths.keys, "agent.public"))
            self._zap.setsockopt(zmq.LINGER, 0)
            self._zap.bind(_ZAP_ENDPOINT)
            self._socket.setsockopt(zmq.CURVE_SERVER, 1)
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, _key(paths.keys, "coordinator.secret"))
            self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a restarted agent takes its name over at once
            self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # sending to an agent that is not there says so
            self._socket.bind(self._address)
            (paths.root / _SOCKET_NAME).chmod(0o600)
        except BaseException:
            self.close()
            raise
        self._poller.register(self._zap, zmq.POLLIN)

    def wait(self, timeout_s: float, descriptors: Iterable[int] = ()) -> set[int]:
        ready = super().wait(timeout_s, descriptors)
        self._admit()
        return ready

    def receive(self) -> list[tuple[str, AgentMessage]]:
        """All messages that have arrived, each with the name of its sender; malformed ones are logged and dropped."""
        self._admit()
        messages = []
        while (frames := self._take()) is not None:
            message = self._decode(frames[1:])
            if message is not None:
                messages.append((frames[0].decode(errors="replace"), message))
        return messages

    def send(self, peer: str, message: CoordinatorMessage) -> bool:
        """Queue a message; False where that agent is not connected or its queue is full."""
        return self._put([peer.encode(), _VERSION, message.model_dump_json().encode()])

    def _admit(self) -> None:
        """Answer the handshakes that wait (ZAP, RFC 27): 200 for the agents' key, 400 for any other."""
        while self._zap.poll(0):
            frames = self._zap.recv_multipart()
            version, request, mechanism, credentials = frames[0], frames[1], frames[5], frames[6:]
            known = mechanism == b"CURVE" and credentials == [self._allowed]
            if not known:
                log.warning("wire.refused reason=key address=%s", frames[3].decode(errors="replace"))
            code, text, user = (b"200", b"OK", b"agent") if known else (b"400", b"unknown key", b"")
            self._zap.send_multipart([version, request, code, text, user, b""])

    def close(self) -> None:
        self._zap.close()
        super().close()
        (self._paths.root / _SOCKET_NAME).unlink(missing_ok=True)


class AgentWire(_Endpoint[CoordinatorMessage]):
    """An agent's end. It may be opened before the coordinator is there: messages queue, connections are retried."""

    def __init__(self, paths: RunPaths, node: str) -> None:
        super().__init__(paths.root, zmq.DEALER, COORDINATOR_MESSAGE, linger_s=0.2)
        try:
            self._socket.setsockopt(zmq.IDENTITY, node.encode())
            self._socket.setsockopt(zmq.CURVE_SERVERKEY, _key(paths.keys, "coordinator.public"))
            self._socket.setsockopt(zmq.CURVE_PUBLICKEY, _key(paths.keys, "agent.public"))
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, _key(paths.keys, "agent.secret"))
            self._socket.setsockopt(zmq.RECONNECT_IVL, 20)
            self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 200)
            self._socket.connect(self._address)
        except BaseException:
            self.close()
            raise

    def receive(self) -> list[CoordinatorMessage]:
        """All messages that have arrived."""
        messages = []
        while (frames := self._take()) is not None:
            message = self._decode(frames)
            if message is not None:
                messages.append(message)
        return messages

    def send(self, message: AgentMessage) -> bool:
        """Queue a message; False where the queue is full, as the coordinator has been away for long."""
        return self._put([_VERSION, message.model_dump_json().encode()])
