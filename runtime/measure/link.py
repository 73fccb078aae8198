"""`python -m runtime measure-link listen|connect ADDRESS PORT`: how much a network carries between two hosts, and how
late it is. One end listens, the other connects; a secret that both read from standard input comes before anything.

What travels after the two proofs: 64 bytes to and fro, then frames of noise one way, then the other. A frame is its
length (4 bytes) and so many bytes; length 0 ends a direction. Who receives counts, and says by one byte when it has
had enough. Nothing is interpreted, and what does not fit ends the measurement.
"""

from __future__ import annotations

import errno
import json
import secrets
import select
import socket
import statistics
import struct
import sys
import time
from collections.abc import Sequence

from runtime.contract.measurement import LinkReport, Spread
from runtime.measure.clocking import spread
from runtime.measure.proving import HungUpError, prove

_PATIENCE_S = 10.0
_STANDSTILL_S = 5.0
_PINGS, _WARM_PINGS, _PING_BYTES = 200, 5, 64
_PING_S = 2.0  #: on a slow link fewer round trips have to do
_LEAST_PINGS = 5
_WAY_S = 0.5  #: of data in each direction
_WINDOW_S = 0.1
_FRAME = 64 << 10
_UNSENT = 128 << 10  #: bytes that wait in the sender's kernel: more would still be on the way long after the end
_TCP_NOTSENT_LOWAT = 25  # of linux/tcp.h
_LENGTH = struct.Struct("!I")
_HUNG_UP = "the other end hung up: it does not know the secret, or was ended"
_WRONG, _TAKEN = 2, 3  #: exit codes: it cannot be measured; the port is somebody else's


class LinkError(Exception):
    """The other end is not there, does not know the secret, or fell silent."""


def main(argv: Sequence[str]) -> int:
    """Prints a LinkReport; 2 with `{"error": …}` where nothing can be measured, 3 where the port is taken."""
    try:
        side, address, port = argv[0], argv[1], int(argv[2])
        key = bytes.fromhex(sys.stdin.readline().strip())
        if side not in ("listen", "connect") or len(key) < 16:
            raise ValueError
    except (IndexError, ValueError):
        return _failed("usage: measure-link listen|connect ADDRESS PORT, with a secret of 16 bytes on standard input")
    try:
        report = listen(address, port, key) if side == "listen" else connect(address, port, key)
    except LinkError as error:
        return _failed(str(error))
    except OSError as error:
        taken = side == "listen" and error.errno in (errno.EADDRINUSE, errno.EACCES)
        return _failed(f"{address} port {port}: {error.strerror or error}", _TAKEN if taken else _WRONG)
    sys.stdout.write(report.model_dump_json() + "\n")
    return 0


def listen(address: str, port: int, key: bytes, *, patience_s: float = _PATIENCE_S) -> LinkReport:
    """One connection on that address and no other, from somebody who proves to have the key."""
    with socket.create_server((address, port), family=_family(address), backlog=1) as server:
        server.settimeout(patience_s)
        try:
            connection, _ = server.accept()
        except TimeoutError as error:
            raise LinkError(f"nobody came to {address} port {port} within {patience_s:g} s") from error
    with connection:
        return _End(connection, key, accepted=True).measure()


def connect(address: str, port: int, key: bytes, *, patience_s: float = _PATIENCE_S) -> LinkReport:
    """Meet who listens there, or will within a moment."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            connection = socket.create_connection((address, port), timeout=patience_s)
            break
        except ConnectionRefusedError as error:
            if time.monotonic() > deadline:
                raise LinkError(f"nobody listens at {address} port {port}") from error
            time.sleep(0.02)
        except TimeoutError as error:
            raise LinkError(f"{address} does not answer at port {port}: is there a firewall between?") from error
    with connection:
        return _End(connection, key, accepted=False).measure()


class _End:
    """One end of the connection. Who connected sends first in everything."""

    def __init__(self, connection: socket.socket, key: bytes, *, accepted: bool) -> None:
        connection.settimeout(_STANDSTILL_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _UNSENT)
        self._socket = connection
        self._accepted = accepted
        self._key = key

    def measure(self) -> LinkReport:
        """What this end has seen: round trips by who connected, the rate of what it received."""
        try:
            self._prove()
            rtt_s = self._echo() if self._accepted else self._ping()
            if self._accepted:
                rates = self._receive()
                self._send()
            else:
                self._send()
                rates = self._receive()
        except TimeoutError as error:
            raise LinkError(f"the other end was silent for {_STANDSTILL_S:g} s") from error
        return LinkReport(received_mb_per_s=spread(rates), rtt_s=_delay(rtt_s) if rtt_s else None)

    def _prove(self) -> None:
        try:
            known = prove(self._socket, self._key, accepted=self._accepted)
        except HungUpError as error:
            raise LinkError(_HUNG_UP) from error
        if not known:
            raise LinkError("the other end does not know the secret")

    def _ping(self) -> list[float]:
        payload, took = secrets.token_bytes(_PING_BYTES), list[float]()
        deadline = time.perf_counter() + _PING_S
        for number in range(_WARM_PINGS + _PINGS):
            began = time.perf_counter()
            if began > deadline and len(took) >= _LEAST_PINGS:
                break
            self._socket.sendall(payload)
            self._exactly(_PING_BYTES)
            if number >= _WARM_PINGS:
                took.append(time.perf_counter() - began)
        self._socket.sendall(bytes(_PING_BYTES))  # no ping: the end of them
        return took

    def _echo(self) -> list[float]:
        while any(payload := self._exactly(_PING_BYTES)):
            self._socket.sendall(payload)
        return []

    def _send(self) -> None:
        frame = memoryview(_LENGTH.pack(_FRAME) + secrets.token_bytes(_FRAME))  # which no cable compresses
        poller = select.poll()
        poller.register(self._socket, select.POLLIN | select.POLLOUT)
        rest = frame
        while True:
            ready = poller.poll(_STANDSTILL_S * 1e3)
            if not ready:
                raise TimeoutError
            if ready[0][1] & ~select.POLLOUT:  # a word of it, or its end
                break
            rest = rest[self._socket.send(rest, socket.MSG_DONTWAIT) :] or frame
        self._exactly(1)
        if rest is not frame:
            self._socket.sendall(rest)
        self._socket.sendall(_LENGTH.pack(0))

    def _receive(self) -> list[float]:
        """MB/s of each window; the first, in which the connection still finds its pace, counts only if it is alone."""
        into = bytearray(_FRAME)
        began = window = 0.0
        moved, enough = 0, False
        rates: list[float] = []
        while length := _LENGTH.unpack(self._exactly(_LENGTH.size))[0]:
            if length > _FRAME:
                raise LinkError("the other end sent what was not agreed on")
            self._fill(memoryview(into)[:length])
            now = time.perf_counter()
            if not began:
                began = window = now
                continue
            if enough:
                continue
            moved += length
            if now - window >= _WINDOW_S:
                rates.append(moved / (now - window) / 1e6)
                window, moved = now, 0
            if now - began >= _WAY_S:
                self._socket.sendall(b"\0")
                enough = True
        return rates[1:] or rates

    def _exactly(self, count: int) -> bytes:
        into = bytearray(count)
        self._fill(memoryview(into))
        return bytes(into)

    def _fill(self, into: memoryview) -> None:
        while into:
            got = self._socket.recv_into(into)
            if not got:
                raise LinkError(_HUNG_UP)
            into = into[got:]


def _delay(rtt_s: Sequence[float]) -> Spread:
    """Median, the shortest, and what 99 of 100 stay below."""
    ordered = sorted(rtt_s)
    high = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return Spread(median=statistics.median(ordered), low=ordered[0], high=high, repeats=len(ordered))


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _failed(message: str, code: int = _WRONG) -> int:
    sys.stdout.write(json.dumps({"error": message}) + "\n")
    return code
