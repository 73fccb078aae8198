"""`python -m runtime reach FILE`: listens for other hosts, or connects to them, as a run would; JSON in and out.

Who listens answers at once and stays for some seconds as a process of its own, which then ends by itself. Either side
proves that it has the key: somebody else's program on that port is not taken for ours, and cannot hold it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from runtime.contract.reach import REQUEST, Connect, Connected, Listen, Listening, Reached, Target, Way
from runtime.control.network import NetworkError, address_in
from runtime.measure import meeting
from runtime.measure.proving import prove

_STRANGER_S = 1.0  #: for one who has connected to prove himself
_GRACE_S = 10  #: for MPI to be initialised, or for a library that hangs: then the kernel ends the listener
_BACKLOG = 128


def main(argv: Sequence[str]) -> int:
    """Exit code 0 with the answer on standard output, whatever it says; 2 with `{"error": …}` for a bad request."""
    try:
        path = Path(argv[0])
        request = REQUEST.validate_json(path.read_bytes())
        path.unlink()
    except IndexError:
        return _failed("usage: reach FILE, which holds a request in JSON")
    except (OSError, ValidationError) as error:
        return _failed(f"{type(error).__name__}: {error}")
    answer = connect(request) if isinstance(request, Connect) else listen(request)
    sys.stdout.write(answer.model_dump_json() + "\n")
    return 0


def listen(request: Listen) -> Listening:
    """Fork a listener and say where it listens."""
    heard, say = os.pipe()
    if os.fork() == 0:
        os.close(heard)
        signal.alarm(int(request.within_s) + _GRACE_S)
        _live_alone(lambda: _serve(request, say))
    os.close(say)
    with os.fdopen(heard) as words:
        line = words.readline()
    return Listening.model_validate_json(line) if line else Listening(error="the listener ended without a word")


def _live_alone(work: Callable[[], object]) -> NoReturn:
    """The rest of a forked process: in a session of its own, as whoever started it is about to leave."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    try:
        work()
    finally:
        os._exit(0)


def _serve(request: Listen, say: int) -> None:
    if request.mpi:
        meeting.accept(request, lambda listening: _tell(say, listening))
        return
    try:
        server = bound(request)
    except (OSError, NetworkError) as error:
        _tell(say, Listening(error=str(error)))
        return
    with server:
        server.listen(_BACKLOG)
        host, port = server.getsockname()[:2]
        _tell(say, Listening(address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}"))
        accept_all(server, bytes.fromhex(request.key), request.expected, time.monotonic() + request.within_s)


def _tell(say: int, listening: Listening) -> None:
    os.write(say, listening.model_dump_json().encode() + b"\n")
    os.close(say)


def bound(way: Way) -> socket.socket:
    """A socket on this host's address in the network, on a free port of the range; OSError or NetworkError if none."""
    address, _device = address_in(way.network)
    ports = [0] if way.ports is None else list(range(way.ports[0], way.ports[1] + 1))
    random.shuffle(ports)
    for port in ports:
        server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((address, port))
        except OSError as error:
            server.close()
            last = error
            continue
        return server
    wanted = f"{ports[0]}" if len(ports) == 1 else f"{min(ports)}-{max(ports)}"
    raise OSError(f"no port of {wanted} is free at {address}: {last.strerror}")


def accept_all(server: socket.socket, key: bytes, expected: int, deadline: float) -> int:
    """Answer those who prove that they have the key until all expected ones were here; how many were."""
    came = 0
    while came < expected and (left := deadline - time.monotonic()) > 0:
        server.settimeout(left)
        try:
            peer, _ = server.accept()
        except TimeoutError:
            break
        with peer:
            peer.settimeout(_STRANGER_S)
            try:
                came += prove(peer, key, accepted=True)
            except OSError:
                continue  # a stranger, or one who has left: the next one counts
    return came


def connect(request: Connect) -> Connected:
    """Try every target."""
    if request.mpi:
        return Connected(reached=meeting.connect(request))
    return Connected(reached=tuple(_try(target, bytes.fromhex(request.key), request) for target in request.targets))


def _try(target: Target, key: bytes, request: Connect) -> Reached:
    host, _, port = target.address.rpartition(":")
    began = time.monotonic()
    try:
        source = address_in(request.network)[0]
        where = (host.strip("[]"), int(port))
        with socket.create_connection(where, timeout=request.within_s, source_address=(source, 0)) as peer:
            peer.settimeout(max(0.1, request.within_s - (time.monotonic() - began)))
            if not prove(peer, key, accepted=False):
                return Reached(name=target.name, problem="another program answers there")
    except TimeoutError:
        return Reached(name=target.name, problem=f"no answer within {request.within_s:g} s: a firewall drops it?")
    except (OSError, NetworkError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Reached(name=target.name, problem=why)
    return Reached(name=target.name, took_s=time.monotonic() - began)


def _failed(message: str) -> int:
    sys.stdout.write(json.dumps({"error": message}) + "\n")
    return 2
