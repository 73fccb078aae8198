"""What a real SSH server can do to a client: each time a clear result that names host, phase and way out."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.ssh_servers import Server, alive, eventually, free_port, greet, in_background, make_key, refused
from tianjictl.hosts.reader import InventoryProblem, load, read
from tianjictl.hosts.types import Host
from tianjictl.remote.deadlines import Deadlines
from tianjictl.remote.failures import (
    CommandTimedOut,
    ConnectionLost,
    HostKeyRefused,
    LoginRefused,
    Phase,
)
from tianjictl.remote.fanout import Err, Limits, Ok, fan_out
from tianjictl.remote.reach import bastion, reach


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of something at 127.0.0.1 that accepts and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_wrong_user_is_told_which_keys_were_tried(shared_server):
    failure = refused(shared_server.host(user="nobody-of-this-name"), LoginRefused)
    assert failure.phase is Phase.LOGIN
    assert f"does not let nobody-of-this-name in: tried {shared_server.user_key}" in failure.why


def test_no_more_keys_are_tried_than_a_server_bears(sshd, tmp_path):
    server = sshd("MaxAuthTries 6")
    wrong = [make_key(tmp_path / f"wrong{number}") for number in range(6)]
    server.configure("".join(f"IdentityFile {key}\n" for key in wrong))
    failure = refused(server.host(key_file=None), LoginRefused)
    assert failure.why.count("wrong") == 6
    assert "wrong5 (no more than 5 are tried)" in failure.why


def test_a_key_that_needs_a_passphrase_is_named_and_passed_over(sshd, tmp_path):
    server = sshd()
    locked = make_key(tmp_path / "locked", passphrase="secret")
    server.configure(f"IdentityFile {locked}\nIdentityFile {tmp_path / 'missing'}\nIdentityFile {server.user_key}\n")
    assert greet(server.host(key_file=None)) == "this is cn01"
    failure = refused(server.host(key_file=str(locked), ssh_words=("-F", "none", "-o", "IdentitiesOnly=yes",
        "-o", f"UserKnownHostsFile={server.known_hosts}", "-o", "IdentityAgent=none")), LoginRefused)  # fmt: skip
    assert f"passed over {locked} (it needs a passphrase: ssh-add it)" in failure.why


def test_the_agents_key_is_used_where_only_its_public_half_is_here(sshd, tmp_path, user_key):
    server = sshd()
    path = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    try:
        assert eventually(path.exists)
        environment = {**os.environ, "SSH_AUTH_SOCK": str(path)}
        others = [make_key(tmp_path / f"other{number}") for number in range(6)]
        subprocess.run(["ssh-add", "-q", *others, user_key], env=environment, check=True)
        public = tmp_path / "mine.pub"
        public.write_text(Path(f"{user_key}.pub").read_text())
        words = f"IdentityAgent {path}\nIdentityFile {tmp_path / 'mine'}\n"
        server.configure(words)
        assert greet(server.host(key_file=None)) == "this is cn01"
        public.unlink()
        assert "there is no key to offer" in refused(server.host(key_file=None), LoginRefused).why
    finally:
        agent.terminate()
        agent.wait(10)


def test_a_refused_port_is_told_at_once(shared_server):
    failure = refused(shared_server.host(port=free_port(shared_server.address)))
    assert (failure.phase, failure.passing) == (Phase.CONNECT, False)
    assert "refuses connections" in failure.why


def test_a_host_without_a_way_to_it_is_told_as_one_that_may_be_down(shared_server, monkeypatch):
    def unreachable(*_args, **_options):
        raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))

    monkeypatch.setattr(socket, "create_connection", unreachable)
    failure = refused(shared_server.host())
    assert "No route to host" in failure.why
    assert "is the host up" in (failure.hint or "")


def test_a_host_that_accepts_and_says_nothing_runs_into_its_own_deadline(shared_server, silent):
    began = time.monotonic()
    failure = refused(shared_server.host(address="127.0.0.1", port=silent), deadlines=Deadlines(banner_s=0.5))
    assert time.monotonic() - began < Deadlines().banner_s
    assert failure.phase is Phase.BANNER
    assert "says nothing of use for 0.5 s" in failure.why


def test_something_that_is_no_ssh_server_is_called_that(shared_server):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        from threading import Thread

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.sendall(b"220 mail ready\r\n" * 200)
                client.recv(1)

        thread = Thread(target=serve)
        thread.start()
        failure = refused(shared_server.host(address="127.0.0.1", port=listener.getsockname()[1]))
        thread.join()
    assert "is no SSH server" in failure.why


def test_a_server_that_limits_logins_lets_twelve_at_a_time_in_after_some_tries(sshd):
    server = sshd("MaxStartups 2:50:4", "LoginGraceTime 20")
    hosts = {f"cn{number:02}": server.host(f"cn{number:02}") for number in range(12)}
    outcomes = fan_out(hosts, greet, limits=Limits(parallel=12, tries=12, first_wait_s=0.1, longest_wait_s=1.0))
    assert {name: getattr(outcome, "value", outcome) for name, outcome in outcomes.items()} == {
        name: f"this is {name}" for name in hosts
    }
    assert max(outcome.tries for outcome in outcomes.values()) > 1, "the limit was never met: this test shows nothing"


def test_a_login_shell_that_prints_is_not_heard(sshd, tmp_path):
    noisy = tmp_path / "noisy"
    noisy.write_text(
        '#!/bin/sh\necho "Welcome [b]"; echo "setlocale: cannot" >&2\nexec /bin/sh -c "$SSH_ORIGINAL_COMMAND"\n'
    )
    noisy.chmod(0o755)
    server = sshd(f"ForceCommand {noisy}")
    with reach(server.host()) as connection:
        done = connection.run("echo out; echo err >&2")
        assert (done.out, done.err) == (b"out\n", b"err\n")
        connection.put(b"\0content", str(tmp_path / "file"))
        assert connection.get(str(tmp_path / "file")) == b"\0content"


def test_an_account_without_a_shell_says_what_it_printed(sshd, tmp_path):
    closed = tmp_path / "closed"
    closed.write_text("#!/bin/sh\necho This account is closed.\nexit 1\n")
    closed.chmod(0o755)
    server = sshd(f"ForceCommand {closed}")
    with (
        reach(server.host()) as connection,
        pytest.raises(ConnectionLost, match=r"ended early: This account is closed\."),
    ):
        connection.run("echo")


@pytest.fixture
def chain(sshd) -> tuple[Server, Host]:
    """A host behind two others; its own server, and the host as the inventory has it."""
    first, second, last = sshd(last=11), sshd(last=12), sshd(last=13)
    hops = "".join(
        f"Host {name}\n  HostName {server.address}\n  Port {server.port}\n  IdentityFile {server.user_key}\n"
        for name, server in (("gate", first), ("inner", second))
    )
    last.configure(f"{hops}Host inner\n  ProxyJump gate\n")
    last.trust("".join(server.line() for server in (first, second, last)))
    return last, last.host("far", ssh_words=("-F", str(last.config), "-J", "inner"))


def test_a_host_behind_two_others_is_reached_hop_by_hop(chain):
    server, host = chain
    assert greet(host) == "this is far"
    assert bastion(host) is not None
    assert "Accepted publickey" in (server.folder / "log").read_text()


def test_a_hop_that_fails_is_named_with_the_host_behind_it(chain):
    server, host = chain
    known = server.known_hosts.read_text().splitlines(keepends=True)
    server.trust(known[0] + known[2])
    failure = refused(host, HostKeyRefused)
    assert failure.why.startswith("hop 2 of 3, inner: its key is not known")
    server.trust("".join(known))
    failure = refused(server.host("far", port=free_port(server.address), ssh_words=host.ssh_words))
    assert failure.why.startswith(f"hop 3 of 3, {server.address}: the host before it cannot connect to")


def test_processes_on_a_host_end_when_the_network_goes_away(sshd, tmp_path):
    connection: Any = reach(sshd().host())
    pids = tmp_path / "pids"
    running = in_background(connection, 'sleep 62 & echo $! $$ >"$1.new"; mv "$1.new" "$1"; wait', str(pids))
    assert eventually(pids.exists)
    found = [int(pid) for pid in pids.read_text().split()]
    assert all(alive(pid) for pid in found)
    connection._transports[0].sock.shutdown(socket.SHUT_RDWR)  # no word of farewell
    assert isinstance(running(), ConnectionLost)
    assert eventually(lambda: not any(alive(pid) for pid in found))
    connection.close()


def test_one_bad_host_after_another_and_the_good_ones_are_unharmed(sshd, tmp_path, silent):
    server = sshd()
    words = f"-F {server.config}"
    text = f"""all:
  vars:
    ansible_user: {server.host().user}
    ansible_ssh_private_key_file: {server.user_key}
    ansible_ssh_common_args: {words}
  hosts:
    good: {{ansible_host: {server.address}, ansible_port: {server.port}}}
    twin: {{ansible_host: {server.address}, ansible_port: {server.port}}}
    closed: {{ansible_host: {server.address}, ansible_port: {free_port(server.address)}}}
    stranger: {{ansible_host: {server.address}, ansible_port: {server.port}, ansible_user: nobody-of-this-name}}
    mute: {{ansible_host: 127.0.0.1, ansible_port: {silent}}}
    here: {{ansible_connection: local}}
"""
    path = tmp_path / "hosts.yaml"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    inventory = load(path)
    assert "hosts good and twin have one address" in str(inventory.notes[0])
    order: list[str] = []
    outcomes = fan_out(
        {host.name: host for host in inventory.hosts},
        lambda host: greet(host, deadlines=Deadlines(banner_s=4.0)),
        on_outcome=lambda name, _outcome: order.append(name),
    )
    assert order[-1] == "mute", "nobody waits for the slow one"
    assert {name: outcome.value for name, outcome in outcomes.items() if isinstance(outcome, Ok)} == {
        name: f"this is {name}" for name in ("good", "twin", "here")
    }
    assert {name: outcome.error.phase for name, outcome in outcomes.items() if isinstance(outcome, Err)} == {
        "closed": Phase.CONNECT, "stranger": Phase.LOGIN, "mute": Phase.BANNER,
    }  # fmt: skip
    with pytest.raises(InventoryProblem, match="key 'good' is given twice"):
        read(path.read_bytes() + b"    good: {}\r\n", "hosts.yaml")


def test_a_server_that_dies_in_the_middle_is_a_lost_connection(sshd):
    server = sshd()
    with reach(server.host()) as connection:
        session = int(connection.run("read -r _ _ _ parent _ </proc/$PPID/stat; echo $parent").text)
        with pytest.raises(ConnectionLost) as caught:
            connection.run('kill -9 "$1"; sleep 63', str(session), timeout_s=10)
    assert caught.value.passing
    assert not isinstance(caught.value, CommandTimedOut)
