"""Messages between agents and the coordinator over ZeroMQ with CURVE. The only module that knows zmq.

Each run has two key pairs of its own, made by `make_keys`: the coordinator's and the agents'. A connection is let in
only if it proves that it holds the agents' secret key (checked by a ZAP handler inside the same loop, no thread), and
an agent talks only to who holds the coordinator's. Without the key files nobody can read, send or even complete the
handshake. Frames: protocol version, one JSON message, and for some messages a blob of bytes.

The agent of the head uses a Unix socket in the run folder, those of other nodes TCP. Nothing is queued for a peer that
is not connected: `send` says so, and what is repeated anyway is not sent late. Of what was sent last, some may be lost
when a connection breaks.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import secrets
import struct
import time
from pathlib import Path
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
from runtime.control.refusals import Refusals, address_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime.contract.paths import RunPaths

log = logging.getLogger(__name__)

_VERSION = str(PROTOCOL_VERSION).encode()
_ZAP_ENDPOINT = "inproc://zeromq.zap.01"  # fixed by RFC 27
_SOCKET_NAME = "wire.sock"
_LINK_KEY_BYTES = 32
_PORT_FREE_WITHIN_S = 2.0  #: a coordinator that was killed leaves its port to its successor at once, or very soon
_AT_HEAD = (
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
)
_AT_AGENT = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
_OPTIONS = {
    zmq.MAXMSGSIZE: 16 << 20,
    zmq.SNDHWM: 1000,
    zmq.RCVHWM: 1000,
    # A peer that has vanished without a word is noticed by what it does not answer.
    zmq.HEARTBEAT_IVL: 500,
    zmq.HEARTBEAT_TIMEOUT: 2000,
    zmq.HEARTBEAT_TTL: 2000,
    zmq.HANDSHAKE_IVL: 3000,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 5,
    zmq.TCP_KEEPALIVE_INTVL: 2,
    zmq.TCP_KEEPALIVE_CNT: 3,
}

Incoming = TypeVar("Incoming")


class WireError(Exception):
    """The wire cannot be opened: keys missing or readable by others, address in use."""


def make_keys(folder: Path) -> None:
    """Make the run's keys in `folder` (0700), one 0600 file per key; existing keys are kept.

    `link.key` is what couriers prove to each other that they belong to the run (32 random bytes, as hex).
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    for owner in ("coordinator", "agent"):
        if (folder / f"{owner}.public").exists():
            continue
        public, secret = zmq.curve_keypair()
        write_whole(folder / f"{owner}.secret", secret, mode=0o600)
        write_whole(folder / f"{owner}.public", public, mode=0o600)  # last: its presence says the pair is whole
    if not (folder / "link.key").exists():
        write_whole(folder / "link.key", secrets.token_hex(_LINK_KEY_BYTES), mode=0o600)


def read_key(folder: Path, name: str) -> bytes:
    """One of the run's keys; WireError where it is missing or others could read it."""
    path = folder / name
    try:
        if path.stat().st_mode & 0o077:
            raise WireError(f"{path} can be read by others: chmod 600 it")
        return path.read_bytes().strip()
    except FileNotFoundError as error:
        raise WireError(f"the run's key {path} is missing") from error


def ipc_endpoint(paths: RunPaths) -> str:
    """Where the coordinator listens for the agent of its own node, however deep the run folder lies."""
    return f"ipc://{paths.root / _SOCKET_NAME}"


def tcp_endpoint(address: str, port: int | str) -> str:
    """Where the coordinator listens for agents of other nodes."""
    return f"tcp://[{address}]:{port}" if ":" in address else f"tcp://{address}:{port}"


class _Endpoint(Generic[Incoming]):
    """What both ends share: a context of their own, decoding, waiting, closing."""

    def __init__(self, kind: int, incoming: TypeAdapter[Incoming], watched: int, linger_s: float) -> None:
        self._folder: int | None = None
        self._incoming = incoming
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(kind)
        for option, value in _OPTIONS.items():
            self._socket.setsockopt(option, value)
        self._socket.setsockopt(zmq.LINGER, int(linger_s * 1000))
        self._monitor = self._socket.get_monitor_socket(watched)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)
        self._extra: set[int] = set()

    def _shortened(self, endpoint: str) -> str:
        """An `ipc://` endpoint as ZeroMQ can use it: a Unix address has 108 bytes, a path may have more.

        The descriptor stays open: ZeroMQ uses the name again when it reconnects and when it removes the socket.
        """
        scheme, _, path = endpoint.partition("://")
        if scheme != "ipc":
            return endpoint
        self._folder = os.open(Path(path).parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"ipc:///proc/self/fd/{self._folder}/{Path(path).name}"

    def wait(self, timeout_s: float, descriptors: Iterable[int] = ()) -> set[int]:
        """Sleep until a message, one of `descriptors` is readable, or the timeout; returns the readable descriptors.

        A connection made or lost ends the sleep too.
        """
        wanted = set(descriptors)
        for gone in self._extra - wanted:
            self._poller.unregister(gone)
        for new in wanted - self._extra:
            self._poller.register(new, zmq.POLLIN)
        self._extra = wanted
        ready = dict(self._poller.poll(max(0, math.ceil(timeout_s * 1000))))
        self._observe()
        return wanted & ready.keys()

    def _observe(self) -> None:
        """Take note of connections made and lost."""
        while self._monitor.poll(0):
            event, value = struct.unpack("=hi", self._monitor.recv_multipart()[0])
            self._observed(event, value)

    def _observed(self, event: int, value: int) -> None:
        raise NotImplementedError

    def _decode(self, frames: list[bytes]) -> tuple[Incoming, bytes | None] | None:
        if len(frames) not in (2, 3) or frames[0] != _VERSION:
            log.warning("wire.refused reason=protocol expected=%s got=%r", PROTOCOL_VERSION, frames[:1])
            return None
        try:
            return self._incoming.validate_json(frames[1]), frames[2] if len(frames) > 2 else None
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
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close()
        self._context.term()
        if self._folder is not None:
            os.close(self._folder)


def _frames(message: AgentMessage | CoordinatorMessage, blob: bytes | None) -> list[bytes]:
    frames = [_VERSION, message.model_dump_json().encode()]
    return frames if blob is None else [*frames, blob]


class CoordinatorWire(_Endpoint[AgentMessage]):
    """The coordinator's end: one socket for all agents. One thread; nothing here blocks but `wait`."""

    def __init__(self, paths: RunPaths, listen: str | None = None, ports: tuple[int, int] | None = None) -> None:
        """`listen`: the address at which agents of other nodes may connect, at a free port (of `ports`, both included).

        The port is kept in `paths.wire_port`, so that a successor is found at the same place.
        """
        super().__init__(zmq.ROUTER, AGENT_MESSAGE, _AT_HEAD, linger_s=0.5)
        self._paths = paths
        self._zap = self._context.socket(zmq.REP)
        self._refusals = Refusals()
        self._accepted: dict[int, tuple[str, int]] = {}  # by descriptor: address, and how many had been let in before
        self._let_in = 0
        self._refused = False
        try:
            self._allowed = z85.decode(read_key(paths.keys, "agent.public"))
            self._zap.setsockopt(zmq.LINGER, 0)
            self._zap.bind(_ZAP_ENDPOINT)
            self._socket.setsockopt(zmq.CURVE_SERVER, 1)
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, read_key(paths.keys, "coordinator.secret"))
            self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a restarted agent takes its name over at once
            self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # sending to an agent that is not there says so
            self._socket.bind(self._shortened(ipc_endpoint(paths)))
            (paths.root / _SOCKET_NAME).chmod(0o600)
            if listen is not None:
                self._listen(listen, ports)
        except BaseException:
            self.close()
            raise
        self._poller.register(self._zap, zmq.POLLIN)

    def _listen(self, address: str, ports: tuple[int, int] | None) -> None:
        self._socket.setsockopt(zmq.IPV6, int(":" in address))
        kept = self._paths.wire_port.read_text().strip() if self._paths.wire_port.exists() else ""
        deadline = time.monotonic() + (_PORT_FREE_WITHIN_S if kept else 0.0)
        allowed = [kept] if kept else [str(port) for port in range(ports[0], ports[1] + 1)] if ports else ["*"]
        while not any(self._bound(tcp_endpoint(address, port)) for port in allowed):
            if time.monotonic() > deadline:
                where = f"port {kept}" if kept else f"any port of {ports[0]}-{ports[1]}" if ports else "any port"
                raise WireError(f"agents of other nodes cannot be let in: {where} of {address} is in use")
            time.sleep(0.05)
        port = self._socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2]
        write_whole(self._paths.wire_port, f"{port}\n", mode=0o600)

    def _bound(self, endpoint: str) -> bool:
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            if error.errno != errno.EADDRINUSE:
                raise WireError(f"agents of other nodes cannot be let in at {endpoint}: {error.strerror}") from error
            return False
        return True

    def wait(self, timeout_s: float, descriptors: Iterable[int] = ()) -> set[int]:
        ready = super().wait(timeout_s, descriptors)
        self._admit()
        return ready

    def receive(self) -> list[tuple[str, AgentMessage, bytes | None]]:
        """All messages that have arrived: sender, message, blob; malformed ones are logged and dropped."""
        self._admit()
        messages = []
        while (frames := self._take()) is not None:
            decoded = self._decode(frames[1:])
            if decoded is not None:
                messages.append((frames[0].decode(errors="replace"), *decoded))
        return messages

    def send(self, peer: str, message: CoordinatorMessage, blob: bytes | None = None) -> bool:
        """Queue a message; False where that agent is not connected or its queue is full."""
        return self._put([peer.encode(), *_frames(message, blob)])

    def _admit(self) -> None:
        """Answer the handshakes that wait (ZAP, RFC 27): 200 for the agents' key, 400 for any other."""
        while self._zap.poll(0):
            frames = self._zap.recv_multipart()
            version, request, mechanism, credentials = frames[0], frames[1], frames[5], frames[6:]
            known = mechanism == b"CURVE" and credentials == [self._allowed]
            if not known:
                self._refusals.note("key", frames[3].decode(errors="replace"))
            code, text, user = (b"200", b"OK", b"agent") if known else (b"400", b"unknown key", b"")
            self._zap.send_multipart([version, request, code, text, user, b""])

    def _observed(self, event: int, value: int) -> None:
        """Who does not get as far as to show a key is known by its connection only: where it came from, its end.

        ZeroMQ says nothing of who speaks another protocol but that it was accepted, and that it is gone: it was not let
        in if nobody was in between. One thread reports all this, in its order.
        """
        if event == zmq.EVENT_ACCEPTED:
            self._accepted[value] = address_of(value), self._let_in
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._let_in += 1
        elif event != zmq.EVENT_DISCONNECTED:
            self._refused = True  # its end is reported next
        else:
            address, before = self._accepted.pop(value, ("unknown", -1))
            if self._refused or before == self._let_in:
                self._refusals.note("handshake", address)
            self._refused = False

    def close(self) -> None:
        self._zap.close()
        super().close()
        (self._paths.root / _SOCKET_NAME).unlink(missing_ok=True)


class AgentWire(_Endpoint[CoordinatorMessage]):
    """An agent's end. It may be opened before the coordinator is there: connections are tried again and again."""

    def __init__(self, keys: Path, node: str, endpoint: str) -> None:
        """`keys`: the folder with the run's keys; `endpoint`: of `ipc_endpoint` or `tcp_endpoint`."""
        super().__init__(zmq.DEALER, COORDINATOR_MESSAGE, _AT_AGENT, linger_s=0.2)
        self.connections = 0  #: how often a coordinator has let us in; what was under way may be lost in between
        try:
            self._socket.setsockopt(zmq.IDENTITY, node.encode())
            self._socket.setsockopt(zmq.CURVE_SERVERKEY, read_key(keys, "coordinator.public"))
            self._socket.setsockopt(zmq.CURVE_PUBLICKEY, read_key(keys, "agent.public"))
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, read_key(keys, "agent.secret"))
            self._socket.setsockopt(zmq.IMMEDIATE, 1)
            self._socket.setsockopt(zmq.RECONNECT_IVL, 20)
            self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 200)
            self._socket.setsockopt(zmq.CONNECT_TIMEOUT, 1000)
            self._socket.setsockopt(zmq.IPV6, int("[" in endpoint))
            self._socket.connect(self._shortened(endpoint))
        except BaseException:
            self.close()
            raise

    def receive(self) -> list[tuple[CoordinatorMessage, bytes | None]]:
        """All messages that have arrived, each with its blob."""
        messages = []
        while (frames := self._take()) is not None:
            decoded = self._decode(frames)
            if decoded is not None:
                messages.append(decoded)
        return messages

    def send(self, message: AgentMessage, blob: bytes | None = None) -> bool:
        """Queue a message; False where no coordinator has let us in, or the queue is full."""
        return self._put(_frames(message, blob))

    def _observed(self, event: int, value: int) -> None:
        del value
        self.connections += event == zmq.EVENT_HANDSHAKE_SUCCEEDED
