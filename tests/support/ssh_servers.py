"""Real SSH servers on loopback addresses, with keys made for the test."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tianjictl.hosts.types import Host
from tianjictl.remote.base import Connection
from tianjictl.remote.failures import HostFailure
from tianjictl.remote.reach import reach

SSHD = shutil.which("sshd") or next((path for path in ("/usr/sbin/sshd",) if Path(path).exists()), None)
READY_WITHIN_S = 60.0


def eventually(condition: Callable[[], bool], within_s: float = 60.0) -> bool:
    """Whether `condition` comes true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", path.name, "-f", path], check=True)
    return path


def free_port(address: str) -> int:
    with socket.socket() as sock:
        sock.bind((address, 0))
        return int(sock.getsockname()[1])


def greet(host: Host, **options: Any) -> str:
    """What a host says, asked over a connection of its own."""
    with reach(host, **options) as connection:
        return connection.run('echo "this is $1"', host.name).text


def refused(host: Host, kind: type[HostFailure] = HostFailure, **options: Any) -> HostFailure:
    """The failure that reaching a host comes to, which must name the host and the phase."""
    with pytest.raises(kind) as caught:
        greet(host, **options)
    assert caught.value.host == host.name
    assert str(caught.value).startswith(f"{host.name}: {caught.value.phase}: ")
    return caught.value


def in_background(connection: Connection, script: str, *args: str) -> Callable[[], BaseException | None]:
    """Run a script in a thread; call the answer for what it ended with: an exception, or none."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(connection.run, script, *args)
    pool.shutdown(wait=False)
    return lambda: future.exception(timeout=10)


@dataclass
class Server:
    """An sshd of the test's own, and a host of the inventory that reaches it."""

    folder: Path
    address: str
    port: int
    host_keys: list[Path]
    user_key: Path
    process: subprocess.Popen[bytes]
    known_hosts: Path = field(init=False)
    config: Path = field(init=False)

    def __post_init__(self) -> None:
        self.known_hosts = self.folder / "known_hosts"
        self.config = self.folder / "ssh_config"
        self.trust()
        self.configure()

    def public(self, key: Path) -> str:
        return " ".join(key.with_name(f"{key.name}.pub").read_text().split()[:2])

    def line(self, key: Path | None = None) -> str:
        return f"[{self.address}]:{self.port} {self.public(key or self.host_keys[0])}\n"

    def trust(self, text: str | None = None) -> None:
        self.known_hosts.write_text(self.line() if text is None else text)

    def configure(self, extra: str = "") -> None:
        """SSH's configuration: nothing of the person's who runs the test."""
        self.config.write_text(
            f"{extra}\nHost *\n  UserKnownHostsFile {self.known_hosts}\n  GlobalKnownHostsFile /dev/null\n"
            "  IdentitiesOnly yes\n  IdentityAgent none\n"
        )

    def host(self, name: str = "cn01", **changes: object) -> Host:
        known: dict[str, object] = {
            "address": self.address, "port": self.port, "user": getpass.getuser(), "key_file": str(self.user_key),
            "ssh_words": ("-F", str(self.config)),
        }  # fmt: skip
        return Host(name=name, **{**known, **changes})  # type: ignore[arg-type]


class Servers:
    """Starts servers, and ends them with the test."""

    def __init__(self, folder: Path, user_key: Path) -> None:
        self._folder = folder
        self._user_key = user_key
        self.running: list[Server] = []

    def __call__(self, *extra: str, kinds: tuple[str, ...] = ("ed25519",), last: int = 2) -> Server:
        address = f"127.0.0.{last}"
        folder = self._folder / f"server{len(self.running)}"
        folder.mkdir()
        keys = [make_key(folder / f"host_{kind}", kind) for kind in kinds]
        port = free_port(address)
        lines = [
            f"ListenAddress {address}", f"Port {port}", *(f"HostKey {key}" for key in keys),
            f"AuthorizedKeysFile {self._user_key}.pub", "StrictModes no", "UsePAM no", "PidFile none",
            "PermitRootLogin yes", "PasswordAuthentication no", "KbdInteractiveAuthentication no", *extra,
        ]  # fmt: skip
        config = folder / "sshd_config"
        config.write_text("\n".join(lines) + "\n")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd insists on it for privilege separation
        assert SSHD is not None
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([SSHD, "-D", "-e", "-f", config], stdin=subprocess.DEVNULL, stderr=log)
        server = Server(folder, address, port, keys, self._user_key, process)
        self.running.append(server)
        if not eventually(lambda: self._listens(server), READY_WITHIN_S):
            raise AssertionError(f"sshd is not ready: {(folder / 'log').read_text()}")
        return server

    def _listens(self, server: Server) -> bool:
        assert server.process.poll() is None, (server.folder / "log").read_text()
        try:
            with socket.create_connection((server.address, server.port), timeout=1) as sock:
                return sock.recv(4) == b"SSH-"
        except OSError:
            return False

    def close(self) -> None:
        for server in self.running:
            server.process.terminate()
        for server in self.running:
            server.process.wait(10)
