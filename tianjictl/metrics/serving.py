"""Metrics over HTTP, for a Prometheus server to scrape. Beyond this machine only who knows the token is answered."""

from __future__ import annotations

import hmac
import ipaddress
import os
import socket
import stat
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from tianjictl.errors import UsageProblem
from tianjictl.metrics.exposition import exposition

if TYPE_CHECKING:
    from pathlib import Path

    from tianjictl.metrics.pictures import Observer

PATH = "/metrics"
TIMEOUT_HEADER = "X-Prometheus-Scrape-Timeout-Seconds"
_USUAL_TIMEOUT_S = 10.0  #: Prometheus's own default
_MARGIN_S = 0.5  #: for the way back
_SHORTEST_TOKEN = 16


class MetricsServer(ThreadingHTTPServer):
    """Answers GET /metrics with what `observer` sees."""

    daemon_threads = True

    def __init__(self, observer: Observer, address: str, port: int, token: str | None = None) -> None:
        """Listen on `address` and `port` (0: any free one); UsageProblem where that is not safe or not possible."""
        family, host, loopback = _resolved(address)
        if not loopback and token is None:
            raise UsageProblem(
                f"--address {address} is not of this machine alone: anybody who reaches it could read the metrics",
                hint="give --token-file FILE, with a long random word in a file that only you can read; or leave "
                "--address out and reach it through an SSH tunnel",
            )
        self.address_family = family
        self.observer = observer
        self.token = token
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageProblem(
                f"{address} port {port} cannot be listened on: {why}", hint="another --port, or 0 for any free one"
            ) from error

    @property
    def url(self) -> str:
        """Where to scrape."""
        host, port = self.server_address[:2]
        shown = f"[{host!s}]" if self.address_family is socket.AF_INET6 else str(host)
        return f"http://{shown}:{port}{PATH}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not wait for its answer is no news either."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # just passed on


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer
    timeout = 10.0  # of a client that sends nothing
    server_version = "tianjictl"
    sys_version = ""

    def do_GET(self) -> None:
        if self.server.token is not None and not _knows(self.headers.get("Authorization", ""), self.server.token):
            self._answer(401, b"a bearer token is needed\n")
        elif self.path.partition("?")[0] != PATH:
            self._answer(404, f"the metrics are at {PATH}\n".encode())
        else:
            try:
                shown = self.server.observer.look(_time_for(self.headers.get(TIMEOUT_HEADER)))
            except UsageProblem as error:  # there is no such run yet, or no more
                self._answer(503, f"{error.message}\n".encode())
                return
            content, content_type = exposition(shown, self.headers.get("Accept", ""))
            self._answer(200, content, content_type)

    def _answer(self, status: int, content: bytes, content_type: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Every scrape is no news."""


def _knows(header: str, token: str) -> bool:
    scheme, _, given = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


def _time_for(header: str | None) -> float:
    """How long the runs may take to answer, so that the scrape is in time."""
    try:
        allowed = float(header or _USUAL_TIMEOUT_S)
    except ValueError:
        allowed = _USUAL_TIMEOUT_S
    return min(max(allowed - _MARGIN_S, 0.1), 60.0)


def _resolved(address: str) -> tuple[socket.AddressFamily, str, bool]:
    """Family, numeric address and whether it is loopback; UsageProblem where it is no address of anything."""
    try:
        found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UsageProblem(f"--address {address!r} is no address of this machine: {error}") from error
    family, _, _, _, place = found[0]
    host = str(place[0])
    return family, host, ipaddress.ip_address(host.partition("%")[0]).is_loopback


def read_token(path: Path) -> str:
    """The word in the file; UsageProblem where others can read it or it is too short to be a secret."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with os.fdopen(descriptor) as file:
            mode, owner = (held := os.fstat(file.fileno())).st_mode, held.st_uid
            token = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"--token-file {path} cannot be read: {error}") from error
    if stat.S_IMODE(mode) & 0o077 or owner not in (os.geteuid(), 0):
        raise UsageProblem(f"--token-file {path} can be read by others", hint=f"chmod 600 {path}")
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or any(letter.isspace() for letter in token):
        raise UsageProblem(
            f"--token-file {path} must hold one word of at least {_SHORTEST_TOKEN} letters",
            hint=f"(umask 077; openssl rand -hex 24 > {path})",
        )
    return token
