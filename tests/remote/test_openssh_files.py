"""SSH's configuration, jumps and known_hosts mean here what they mean to OpenSSH."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support.ssh_servers import make_key
from tianjictl.remote.failures import HostFailure
from tianjictl.remote.jump import Jump, parse_jumps, way_to
from tianjictl.remote.keys import Offer, choose
from tianjictl.remote.known_hosts import look_up, matches, parse, remember
from tianjictl.remote.openssh_config import SshConfig, resolve
from tianjictl.remote.openssh_config import parse as parse_config

BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAIBv1" + "A" * 40
needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed (Debian: openssh-client)")

PRINTED = """user ann
hostname 10.0.0.7
port 2222
identitiesonly yes
identityfile ~/.ssh/%h_%r
identityfile "/keys/with blank"
identityfile none
identityagent none
userknownhostsfile ~/.ssh/known_hosts "/etc/other known"
globalknownhostsfile /dev/null
hostkeyalias farm
proxyjump bob@gate:2200,inner
proxycommand none
"""


def test_what_ssh_prints_is_read_with_its_paths_expanded():
    config = parse_config(PRINTED, "cn7", home=Path("/h"))
    assert config == SshConfig(
        host="cn7", hostname="10.0.0.7", port=2222, user="ann", identities_only=True, agent=None,
        identity_files=(Path("/h/.ssh/10.0.0.7_ann"), Path("/keys/with blank")),
        user_known_hosts=(Path("/h/.ssh/known_hosts"), Path("/etc/other known")), global_known_hosts=(),
        host_key_alias="farm", proxy_jump="bob@gate:2200,inner", proxy_command=None,
    )  # fmt: skip


@needs_ssh
def test_includes_matches_and_tokens_are_left_to_ssh_itself(tmp_path):
    (tmp_path / "more").write_text("Match host 10.9.9.9\n  User eve\n  ProxyJump gate\n")
    config = tmp_path / "config"
    config.write_text(f"Host cn*\n  HostName 10.9.9.9\nInclude {tmp_path / 'more'}\n")
    found = resolve("cn4", ("-F", str(config), "-p", "99"))
    assert (found.hostname, found.user, found.port, found.proxy_jump) == ("10.9.9.9", "eve", 99, "gate")


@needs_ssh
def test_what_ssh_refuses_is_told_in_its_words(tmp_path):
    config = tmp_path / "config"
    config.write_text("Host *\n  Frobnicate yes\n")
    with pytest.raises(HostFailure, match=r"^cn4: configuration: ssh -G refuses: .*"):
        resolve("cn4", ("-F", str(config)))
    with pytest.raises(HostFailure, match="cannot begin with '-'"):
        resolve("-oProxyCommand=reboot")


def test_jumps_are_read_with_users_ports_and_addresses():
    assert parse_jumps("ann@gate:2200, inner,ssh://[fd00::1]:22") == [
        Jump("gate", "ann", 2200), Jump("inner", None, None), Jump("fd00::1", None, 22),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="'a:b:c' is not of the form"):
        parse_jumps("gate,a:b:c")


def configurations(**jumps: str | None):
    asked: list[tuple[str, tuple[str, ...]]] = []

    def answer(host: str, words) -> SshConfig:
        asked.append((host, tuple(words)))
        return SshConfig(host=host, hostname=host, proxy_jump=jumps.get(host))

    return answer, asked


def test_the_first_jump_may_have_jumps_of_its_own_and_the_configuration_file_goes_along():
    answer, asked = configurations(far="b@mid:5,near", mid="gate", near="ignored")
    way = way_to("far", ("-F", "conf", "-p", "9"), answer)
    assert [config.host for config in way] == ["gate", "mid", "near", "far"]
    assert asked == [
        ("far", ("-F", "conf", "-p", "9")), ("mid", ("-F", "conf", "-p", "5", "-l", "b")),
        ("near", ("-F", "conf")), ("gate", ("-F", "conf")),
    ]  # fmt: skip


def test_jumps_in_a_circle_are_an_error_and_a_jump_over_oneself_is_none():
    answer, _ = configurations(a="b", b="c", c="a")
    with pytest.raises(HostFailure, match="ProxyJump leads in a circle: a > c > b > a"):
        way_to("a", (), answer)
    answer, _ = configurations(cn1="gate", gate="gate")
    assert [config.host for config in way_to("cn1", (), answer)] == ["gate", "cn1"]


@pytest.mark.parametrize(
    ("patterns", "name", "meant"),
    [
        ("cn1", "cn1", True),
        ("cn1", "cn10", False),
        ("a,CN?,b", "cn1", True),
        ("*.lab,!bad.lab", "good.lab", True),
        ("*.lab,!bad.lab", "bad.lab", False),
        ("[cn1]:2222", "[cn1]:2222", True),
        ("[cn*]:2222", "[cn1]:2222", True),
        ("[cn1]:2222", "c", False),
        ("|1|damaged", "cn1", False),
    ],
)
def test_patterns_of_hosts_are_those_of_openssh(patterns, name, meant):
    assert matches(patterns, name) is meant


def test_an_entry_without_port_counts_for_other_ports_only_where_there_is_no_better_one():
    lines, warnings = parse(f"cn1 ssh-ed25519 {BLOB}\n[cn1]:22022 ssh-ed25519 {BLOB}\n", "known")
    assert warnings == []
    places = [[key.place for key in look_up(lines, "cn1", port).keys] for port in (22, 22022, 5)]
    assert places == [["known:1"], ["known:2"], ["known:1"]]


@needs_ssh
def test_hashed_names_are_found_as_ssh_keygen_makes_them(tmp_path):
    known = tmp_path / "known"
    key = make_key(tmp_path / "key").with_suffix(".pub").read_text().split()[1]
    known.write_text(f"cn1.lab ssh-ed25519 {key}\n[cn2.lab]:99 ssh-ed25519 {key}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, stderr=subprocess.DEVNULL)
    lines, _ = parse(known.read_text(), "known")
    assert [len(look_up(lines, host, port).keys) for host, port in (("cn1.lab", 22), ("cn2.lab", 99), ("x", 22))] == [
        1, 1, 0,
    ]  # fmt: skip


def test_a_key_is_remembered_once_on_a_line_of_its_own(tmp_path):
    known = tmp_path / "new" / "known_hosts"
    for _ in range(2):
        remember(known, "cn1", 2222, "ssh-ed25519", b"blob")
    assert known.read_text() == "[cn1]:2222 ssh-ed25519 YmxvYg==\n"
    assert known.stat().st_mode & 0o777 == 0o600
    known.write_text("no line break")
    remember(known, "cn1", 22, "ssh-ed25519", b"blob")
    assert known.read_text() == "no line break\ncn1 ssh-ed25519 YmxvYg==\n"


def test_identity_files_come_first_by_way_of_the_agent_and_identities_only_keeps_its_others_out(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
    (tmp_path / "b.pub").write_text("ssh-ed25519 Yg== b")
    agent = {b"b": Offer("b of agent", "agent-b"), b"z": Offer("z of agent", "agent-z")}

    def load(path: Path) -> tuple[bytes, str]:
        if path.name == "c":
            raise ValueError("it needs a passphrase")
        return path.name.encode(), path.name

    files = tuple(tmp_path / name for name in ("a", "b", "c", "missing"))
    config = SshConfig(host="h", hostname="h", identity_files=files)
    offers, passed_over = choose(config, agent, load)
    assert [offer.key for offer in offers] == ["a", "agent-b", "agent-z"]
    assert passed_over == [f"{tmp_path / 'c'} (it needs a passphrase)"]
    only = SshConfig(host="h", hostname="h", identity_files=files, identities_only=True)
    assert [offer.key for offer in choose(only, agent, load)[0]] == ["a", "agent-b"]
