"""A host behind a program of the user's: reached through it, and every way in which the program can fail has words."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from support.ssh_servers import Server, alive, eventually, free_port, greet, refused
from tianjictl.remote.deadlines import Deadlines
from tianjictl.remote.failures import HostKeyRefused, Phase
from tianjictl.remote.openssh_config import SshConfig
from tianjictl.remote.proxy_command import expanded
from tianjictl.remote.reach import reach

RELAY = """
import os, socket, sys, threading
with open(sys.argv[3], "a") as file: file.write(f"{os.getpid()}\\n")
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def back():
    while data := sock.recv(65536): os.write(1, data)
    os._exit(0)
threading.Thread(target=back, daemon=True).start()
while data := os.read(0, 65536): sock.sendall(data)
"""


@pytest.fixture
def relayed(sshd, tmp_path: Path) -> tuple[Server, str, Path]:
    """A server, a command that relays to whatever host and port, and the file in which it tells its pid."""
    script, pids = tmp_path / "relay.py", tmp_path / "pids"
    script.write_text(RELAY)
    return sshd(), f"{sys.executable} {script} %h %p {pids}", pids


def through(server: Server, command: str, **changes: Any) -> Any:
    words = ("-F", str(server.config), "-o", f"ProxyCommand={command}")
    return server.host("far", ssh_words=words, **changes)


def test_a_host_is_reached_through_the_command_which_ends_with_the_connection(relayed) -> None:
    server, command, pids = relayed
    connection = reach(through(server, command))
    assert connection.run("echo $1", "there").text == "there"
    (pid,) = map(int, pids.read_text().split())
    assert alive(pid)
    connection.close()
    assert eventually(lambda: not alive(pid))


def test_openssh_itself_can_be_the_command(sshd) -> None:
    gate, inner = sshd(last=21), sshd(last=22)
    inner.trust(gate.line() + inner.line())
    words = f"-F {inner.config} -p {gate.port} -i {gate.user_key}"
    assert greet(through(inner, f"ssh {words} -W %h:%p {gate.address}")) == "this is far"
    assert "Accepted publickey" in (gate.folder / "log").read_text()


def test_a_command_that_ends_says_why(relayed) -> None:
    server, command, _ = relayed
    failure = refused(through(server, command, port=free_port(server.address)))
    assert failure.phase is Phase.CONNECT
    assert "its ProxyCommand has ended with status 1: ConnectionRefusedError" in failure.why
    assert str(failure.hint).startswith(f"run it by hand: {sys.executable}")
    failure = refused(through(server, "no-such-program %h"))
    assert "status 127" in failure.why
    assert "no-such-program" in failure.why


def test_a_command_that_says_nothing_runs_into_the_deadline_and_is_ended(sshd, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = f"sh -c {shlex.quote(f'echo $$ >{pid}; sleep 60 & wait')}"
    failure = refused(through(sshd(), command), deadlines=Deadlines(banner_s=2.0))
    assert failure.phase is Phase.BANNER
    assert "says nothing of use for 2 s" in failure.why
    assert eventually(lambda: not alive(int(pid.read_text())))


def test_the_key_behind_a_command_is_checked_like_any_other(relayed) -> None:
    server, command, pids = relayed
    server.trust("")
    refused(through(server, command), HostKeyRefused)
    assert eventually(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


def test_tokens_are_those_of_openssh() -> None:
    config = SshConfig("cn01", "10.0.0.1", 2222, "ann", proxy_command="nc -X %% %h %p %r %n %u")
    assert expanded(config) == "nc -X % 10.0.0.1 2222 ann cn01 %u"
