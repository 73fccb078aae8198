"""Which keys of a real SSH server are accepted, and what is said of those that are not."""

from __future__ import annotations

import subprocess

import pytest

from support.ssh_servers import greet, make_key, refused
from tianjictl.remote.failures import HostKeyRefused
from tianjictl.remote.known_hosts import look_up
from tianjictl.remote.known_hosts import read as read_known_hosts


def test_a_host_that_is_not_known_is_refused_with_its_fingerprint(sshd):
    server = sshd()
    server.trust("")
    failure = refused(server.host(), HostKeyRefused)
    shown = subprocess.run(
        ["ssh-keygen", "-lf", f"{server.host_keys[0]}.pub"], capture_output=True, text=True, check=True
    )
    assert f"ssh-ed25519 {shown.stdout.split()[1]}" in failure.why
    assert failure.hint is not None
    assert "accept-new" in failure.hint
    assert server.known_hosts.read_text() == ""


def test_accept_new_is_on_request_and_never_silent(sshd):
    server = sshd()
    server.trust("other.lab ssh-rsa damaged")
    told: list[str] = []
    host = server.host(host_keys="accept-new")
    assert greet(host, note=told.append) == "this is cn01"
    assert ["passed over" in told[0], "seen for the first time and accepted: ssh-ed25519 SHA256:" in told[1]] == [
        True
    ] * 2
    assert server.known_hosts.read_text().endswith(f"damaged\n{server.line()}")
    assert greet(server.host()) == "this is cn01", "from now on it is known"


@pytest.mark.parametrize("policy", ["strict", "accept-new"])
def test_a_changed_key_is_refused_under_every_policy(sshd, policy):
    server = sshd()
    server.trust(f"# as it was\n{server.line(make_key(server.folder / 'before'))}")
    failure = refused(server.host(host_keys=policy), HostKeyRefused)
    assert "its key has changed" in failure.why
    assert f"({server.known_hosts}:2)" in failure.why
    assert f"ssh-keygen -R '[{server.address}]:{server.port}' -f {server.known_hosts}" in str(failure.hint)


@pytest.mark.parametrize("policy", ["strict", "accept-new"])
def test_a_key_of_another_type_is_no_match_and_says_which_is_known(sshd, policy):
    server = sshd(kinds=("ed25519",))
    server.trust(server.line(make_key(server.folder / "before", "ecdsa")))
    failure = refused(server.host(host_keys=policy), HostKeyRefused)
    assert f"known is ecdsa-sha2-nistp256 at {server.known_hosts}:1" in failure.why


def test_of_several_host_keys_the_one_that_is_known_is_asked_for(sshd):
    server = sshd(kinds=("ed25519", "ecdsa", "rsa"))
    for key in server.host_keys:
        server.trust(server.line(key))
        assert greet(server.host()) == "this is cn01"


def test_a_revoked_key_is_refused(sshd):
    server = sshd()
    server.trust(f"{server.line()}@revoked * {server.public(server.host_keys[0])}\n")
    assert f"is revoked at {server.known_hosts}:2" in refused(server.host(), HostKeyRefused).why


def test_lines_of_known_hosts_that_nobody_understands_harm_no_other(sshd):
    server = sshd()
    authority = server.public(make_key(server.folder / "authority"))
    damaged = (
        f"cn02 ssh-ed25519 AAAA!\ncn03 ssh-rsa\n@frob x ssh-rsa AAAA\n{server.line()[:60]}\n1.2.3.4 1024 35 12345\n"
    )
    server.trust(f"{damaged}@cert-authority * {authority}\n@revoked * {authority}\n\n# a remark\n{server.line()}")
    told: list[str] = []
    assert greet(server.host(), note=told.append) == "this is cn01"
    assert [text.split(": ")[1] for text in told] == [f"{server.known_hosts}:{number}" for number in range(1, 6)]
    server.trust(f"@cert-authority * {authority}\n")
    assert f"{server.known_hosts}:1 trusts an authority" in refused(server.host(), HostKeyRefused).why


def test_hashed_and_wildcard_entries_are_found(sshd):
    server = sshd()
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", server.known_hosts], check=True, stderr=subprocess.DEVNULL)
    assert server.known_hosts.read_text().startswith("|1|")
    assert greet(server.host()) == "this is cn01"
    server.trust(f"127.0.0.* {server.public(server.host_keys[0])}\n")
    assert greet(server.host()) == "this is cn01", "an entry without a port counts for other ports too"


def test_what_was_accepted_is_found_again_by_openssh_and_by_us(sshd):
    server = sshd()
    server.trust("")
    greet(server.host(host_keys="accept-new"))
    lines, warnings = read_known_hosts([server.known_hosts])
    assert (len(look_up(lines, server.address, server.port).keys), warnings) == (1, [])
    subprocess.run(
        ["ssh-keygen", "-F", f"[{server.address}]:{server.port}", "-f", server.known_hosts],
        check=True, capture_output=True,
    )  # fmt: skip
