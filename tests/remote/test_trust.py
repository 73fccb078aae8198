"""`tianjictl inventory trust`: new keys are shown and kept on request, changed ones never, hop by hop."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.ssh_servers import Server, free_port, greet, make_key
from tianjictl.cli.main import main
from tianjictl.errors import Unreachable


def inventory(path: Path, **hosts: str) -> str:
    path.write_text("all:\n  hosts:\n" + "".join(f"    {name}: {{{said}}}\n" for name, said in hosts.items()))
    return str(path)


def said_of(server: Server, **changes: object) -> str:
    known = {
        "ansible_host": server.address, "ansible_port": server.port, "ansible_user": server.host().user,
        "ansible_ssh_private_key_file": server.user_key, "ansible_ssh_common_args": f"-F {server.config}", **changes,
    }  # fmt: skip
    return ", ".join(f"{key}: {value}" for key, value in known.items())


def test_new_keys_are_shown_with_their_fingerprints_and_kept_once(sshd, tmp_path: Path, capsys) -> None:
    server = sshd()
    server.trust("")
    hosts = {"cn01": said_of(server), "twin": said_of(server), "here": "ansible_connection: local"}
    file = inventory(tmp_path / "h.yaml", **hosts)
    assert main(["inventory", "trust", "-i", file, "--yes"]) == 0
    shown = subprocess.run(
        ["ssh-keygen", "-lf", f"{server.host_keys[0]}.pub"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split()[1] in capsys.readouterr().out
    assert server.known_hosts.read_text() == server.line()
    assert greet(server.host()) == "this is cn01"
    assert main(["inventory", "trust", "-i", file, "--json"]) == 0, "nothing is new, so nothing is asked"
    data = json.loads(capsys.readouterr().out)["data"]
    assert data == {"known": ["cn01", "twin", "here"], "trusted": []}


def test_nothing_is_kept_without_a_yes(sshd, tmp_path: Path, capsys) -> None:
    server = sshd()
    server.trust("")
    assert main(["inventory", "trust", "-i", inventory(tmp_path / "h.yaml", cn01=said_of(server))]) == 2
    assert "pass --yes" in capsys.readouterr().err
    assert server.known_hosts.read_text() == ""


def test_a_changed_key_and_a_dead_host_are_told_and_harm_no_other(sshd, tmp_path: Path, capsys) -> None:
    changed, fresh = sshd(last=31), sshd(last=32)
    changed.trust(changed.line(make_key(tmp_path / "before")))
    before = changed.known_hosts.read_text()
    fresh.trust("")
    hosts = {
        "changed": said_of(changed), "fresh": said_of(fresh),
        "dead": said_of(fresh, ansible_port=free_port(fresh.address)),
    }  # fmt: skip
    code = main(["inventory", "trust", "-i", inventory(tmp_path / "h.yaml", **hosts), "--yes", "--json"])
    assert code == Unreachable.exit_code
    document = json.loads(capsys.readouterr().out)
    assert [each["host"] for each in document["data"]["trusted"]] == ["fresh"]
    told = " ".join(error["message"] for error in document["errors"])
    assert "changed: host key: its key has changed" in told
    assert "dead: connect: " in told
    assert changed.known_hosts.read_text() == before
    assert fresh.known_hosts.read_text() == fresh.line()


def test_keys_on_the_way_come_first_and_those_behind_them_after(sshd, tmp_path: Path, capsys) -> None:
    gate, inner = sshd(last=33), sshd(last=34)
    inner.trust("")
    inner.configure(
        f"Host gate\n  HostName {gate.address}\n  Port {gate.port}\n  IdentityFile {gate.user_key}\n"
        f"Host {inner.address}\n  ProxyJump gate\n"
    )
    assert main(["inventory", "trust", "-i", inventory(tmp_path / "h.yaml", far=said_of(inner)), "--yes"]) == 0
    assert inner.known_hosts.read_text() == gate.line() + inner.line()
    assert capsys.readouterr().out.count("SHA256:") == 2
    assert greet(inner.host("far")) == "this is far"


@pytest.mark.parametrize("host", ["cn02", "CN01"])
def test_a_host_that_is_not_in_the_inventory_is_no_host(tmp_path: Path, capsys, host: str) -> None:
    file = inventory(tmp_path / "h.yaml", cn01="ansible_connection: local")
    assert main(["inventory", "trust", host, "-i", file]) == 2
    assert f"there is no host {host}" in capsys.readouterr().err
