"""What a run over four hosts shows to others while it trains: where it listens, and who may see its keys."""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from support.cluster_runs import STEADY, Operator, Watcher, nothing_left, socket_of
from support.pretend_hosts import PretendHosts

pytestmark = pytest.mark.timeout(300)

HOSTS = 4
TCP_LISTENS, UDP_UNCONNECTED = "0A", "07"  # as /proc/net/tcp and /proc/net/udp have it
UNIX_LISTENS = 0x10000  # among the flags in /proc/net/unix
BOUND_AS = re.compile(r"^\.(.+)\.\d+$")  # a socket keeps the name that it was bound to when its file is renamed

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Training:
    """A run that is under way."""

    hosts: PretendHosts
    run: str

    def pids(self, number: int) -> list[int]:
        return self.hosts.processes_of(number, self.run)

    def folder(self, number: int) -> Path:
        return self.hosts.workdir(number) / "nodes" / self.hosts.name(number) / self.run

    def secrets(self) -> dict[str, bytes]:
        """Every key that is nobody else's business, by its file."""
        files = [path for number in range(HOSTS) for path in (self.folder(number) / "keys").iterdir()]
        return {str(path): path.read_bytes().strip() for path in files if path.suffix != ".public"}


@pytest.fixture(scope="module")
def training(pretend_hosts: PretendHosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    folder = tmp_path_factory.mktemp("network")
    operator = Operator(folder / "home", pretend_hosts.inventory(folder / "hosts.yaml", range(HOSTS)))
    job = folder / "steady.yaml"
    job.write_text(yaml.safe_dump({"name": "steady", **STEADY}, sort_keys=False))
    run = operator.launch(job)
    with Watcher(socket_of(pretend_hosts, run)) as watcher:
        watcher.until(
            lambda look: look.view["state"] == "running" and look.updates > 5 and look.linked, "it trains", 60
        )
    yield Training(pretend_hosts, run)
    operator.type("stop", run, "--yes")
    assert nothing_left(pretend_hosts, run)


def sockets_of(pid: int) -> set[str]:
    """The inodes of a process's sockets."""
    found = set()
    with suppress(FileNotFoundError, ProcessLookupError):  # it ends, or closes one, meanwhile
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):
                place = os.readlink(entry.path)  # noqa: PTH115 - no path, but socket:[inode]
                if place.startswith("socket:["):
                    found.add(place[len("socket:[") : -1])
    return found


def address_of(place: str) -> tuple[Address, int]:
    """`0100007F:1F90` → 127.0.0.1, 8080: words of four bytes, each in the machine's order."""
    words, port = place.split(":")
    raw = b"".join(bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8))
    address: Address = ipaddress.ip_address(raw)
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address, int(port, 16)


def listening(pid: int) -> set[tuple[str, Address, int]]:
    """Where a process takes what others send: protocol, address, port."""
    own, found = sockets_of(pid), set()
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        wanted = TCP_LISTENS if protocol.startswith("tcp") else UDP_UNCONNECTED
        for line in Path(f"/proc/{pid}/net/{protocol}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == wanted and words[9] in own:
                found.add((protocol, *address_of(words[1])))
    return found


def test_nothing_listens_but_on_the_hosts_own_address_in_the_network(
    pretend_hosts: PretendHosts, training: Training
) -> None:
    for number in range(HOSTS):
        places = {place for pid in training.pids(number) for place in listening(pid)}
        assert places, "at least a courier listens"
        foreign = {place for place in places if str(place[1]) != pretend_hosts.address(number)}
        assert foreign == set(), pretend_hosts.name(number)
        assert all(port > 1024 for _, _, port in places)


def test_unix_sockets_are_files_that_only_the_owner_may_use(training: Training) -> None:
    for number in range(HOSTS):
        names = set()
        for pid in training.pids(number):
            own = sockets_of(pid)
            for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]:
                words = line.split()
                if words[6] in own and int(words[3], 16) & UNIX_LISTENS:
                    assert len(words) > 7, "a socket without a name takes connections"
                    assert not words[7].startswith("@"), f"{words[7]} is open to every user of the host"
                    names.add(BOUND_AS.sub(r"\1", Path(words[7]).name))
        files = {path for path in training.folder(number).rglob("*") if stat.S_ISSOCK(path.lstat().st_mode)}
        assert number != 0 or names, "the operator is listened to on the head"
        assert names <= {path.name for path in files}, "a socket is elsewhere than in the run's folder"
        assert {path.name: oct(path.lstat().st_mode & 0o777) for path in files} == {
            path.name: "0o600" for path in files
        }


def test_keys_are_read_by_their_owner_only_and_the_coordinators_is_on_the_head_alone(training: Training) -> None:
    for number in range(HOSTS):
        folder = training.folder(number)
        keys = folder / "keys"
        modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (keys, *keys.iterdir())}
        assert modes.pop("keys") == "0o700"
        assert set(modes.values()) == {"0o600"}, modes
        assert ("coordinator.secret" in modes) == (number == 0)
        assert {"agent.secret", "link.key"} <= set(modes)
        assert folder.stat().st_mode & 0o077 == 0, "others may look into the run's folder"


def test_no_key_is_in_what_a_process_was_started_with(training: Training) -> None:
    secrets = training.secrets()
    assert len(secrets) == 2 * HOSTS + 1
    looked = 0
    for number in range(HOSTS):
        for pid in training.pids(number):
            with suppress(FileNotFoundError, ProcessLookupError):
                for what in ("cmdline", "environ"):
                    shown = Path(f"/proc/{pid}/{what}").read_bytes()
                    told = [name for name, secret in secrets.items() if secret in shown]
                    assert told == [], f"{what} of {shown[:80]!r}"
                looked += 1
    assert looked > 2 * HOSTS, "agents, components and couriers"
