"""Pretend hosts: one machine as several, each with its own network, host name, PID table, /dev/shm and real sshd.

All hosts hang on a switch (a bridge in a namespace of its own); the test process is on it too, with the last address.
Nothing has a name that outlives its processes, and every process ends when the test process does, however that dies:
so nothing is left behind. Files are shared by all of them; each host has a folder and a home of its own in them.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import yaml

from support import slow_cable
from support.ssh_servers import SSHD, alive, make_key
from tianjictl.hosts.reader import load
from tianjictl.hosts.types import Host

_PROGRAMS = ("ip", "unshare", "nsenter", "ssh-keygen")
_READY_S = 60.0
_NETWORKS = 200  # pretend networks that can be there at a time, one for each test process
#: Runs the program in its arguments, and kills it when standard input ends: with the test process.
_GUARD = '"$@" & child=$!; read -r _; kill -9 $child'
_INIT = """hostname "$1"; mount -t tmpfs tmpfs /dev/shm; shift; exec "$@" """


def why_not() -> str | None:
    """Why there can be no pretend hosts here, None if there can."""
    if os.geteuid() != 0:
        return "pretend hosts need root"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None] + ([] if SSHD else ["sshd"])
    if missing:
        return f"pretend hosts need {', '.join(missing)} (Debian: openssh-server, iproute2)"
    tried = subprocess.run(["unshare", "--net", "--pid", "--mount", "--fork", "true"], capture_output=True, check=False)
    return f"namespaces cannot be made here: {tried.stderr.decode().strip()}" if tried.returncode else None


def take_precedence() -> None:
    """Let this process and its children go before all others, so that what else the machine does disturbs less.

    Sessions share the processors evenly where the kernel groups them, and niceness counts within a session only.
    """
    os.nice(-18)
    group = Path("/proc/self/autogroup")
    if group.exists():
        group.write_text("-18")


def wait(true: Callable[[], bool], what: str, within_s: float = _READY_S) -> None:
    """Look again and again; AssertionError with `what` when the time is over."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.01)


def _do(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr.strip()}"
    return done.stdout


class _Space:
    """A process tree in namespaces of its own."""

    def __init__(self, kinds: Sequence[str], command: Sequence[str], log: Path) -> None:
        whole = ["unshare", *kinds, "--fork", "--kill-child", *command]
        with log.open("ab") as out:
            self._guard = subprocess.Popen(
                ["sh", "-c", _GUARD, "sh", *whole],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._log = log
        self.pid = 0
        wait(self._there, f"the first process of {log.stem}")

    def _there(self) -> bool:
        assert self._guard.poll() is None, self._log.read_text()
        first = []
        for process in psutil.Process(self._guard.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # the host's first steps are short-lived programs
                if process.ppid() != self._guard.pid:
                    first.append(process.pid)
        self.pid = first[0] if first else 0
        return self.pid != 0 and _link(f"/proc/{self.pid}/ns/net") != _link("/proc/self/ns/net")

    def inside(self, *words: str) -> str:
        """Run a command in the network namespace."""
        return _do("nsenter", "-t", str(self.pid), "-n", "--", *words)

    def end(self) -> None:
        """Kill all of it."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait(_READY_S)
        wait(lambda: not alive(self.pid), "the namespace's first process is gone")


class PretendHosts:
    """Hosts are counted from 0; `up` makes more of them, `close` ends them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.user_key = make_key(folder / "user_key")
        self.known_hosts = folder / "known_hosts"
        self._mark, number = _free_network()
        self.network = f"10.{64 + number // 4}.{number % 4}.0/24"
        self._prefix, self._port = self.network[: -len("0/24")], f"tjp{number}"
        self.operator = f"{self._prefix}254"  #: address of the test process
        self._hosts: list[_Space | None] = []
        self._ports = 0
        self._slow: dict[int, subprocess.Popen[bytes]] = {}
        self._unwell: set[int] = set()  # hosts that `restore` has to see to
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd insists on it for privilege separation
        self._switch = _Space(("--net",), ["sleep", "infinity"], folder / "switch.log")
        self._switch.inside("ip", "link", "add", "switch", "type", "bridge")
        self._switch.inside("ip", "link", "set", "switch", "up")
        self._plug(self._port, os.getpid(), "operator")
        _do("ip", "addr", "add", f"{self.operator}/24", "dev", self._port)
        _do("ip", "link", "set", self._port, "up")

    def _plug(self, device: str, pid: int, port: str) -> None:
        """Lay a cable from `device` in the network namespace of `pid` to `port` of the switch."""
        made = ("ip", "link", "add", device, "netns", str(pid), "type", "veth", "peer", "name", port)
        self._switch.inside(*made)  # a PID here is one of this PID namespace: the switch has none of its own
        self._switch.inside("ip", "link", "set", port, "master", "switch", "up")

    @property
    def count(self) -> int:
        return len(self._hosts)

    @property
    def names(self) -> list[str]:
        """As in the inventory; also the host's own name for itself."""
        return [self.name(number) for number in range(self.count)]

    def name(self, number: int) -> str:
        return f"cn{number + 1:02}"

    @property
    def addresses(self) -> list[str]:
        return [self.address(number) for number in range(self.count)]

    def address(self, number: int) -> str:
        return f"{self._prefix}{number + 1}"

    def up(self, count: int) -> None:
        """Have at least this many hosts."""
        for number in range(self.count, count):
            key = make_key(self.folder / f"{self.name(number)}_key")
            public = " ".join(key.with_suffix(".pub").read_text().split()[:2])
            with self.known_hosts.open("a") as known:
                known.write(f"{self.address(number)} {public}\n")
            self.workdir(number).mkdir(parents=True)
            self._hosts.append(None)
            self._start(number)
        for number in range(count):
            wait(lambda: self._answers(number), f"sshd of {self.name(number)}")  # noqa: B023 - called at once

    def _start(self, number: int) -> None:
        name, address = self.name(number), self.address(number)
        assert SSHD is not None
        settings = [
            f"ListenAddress={address}", f"HostKey={self.folder / f'{name}_key'}", "UsePAM=no", "PidFile=none",
            f"AuthorizedKeysFile={self.user_key}.pub", "StrictModes=no", "PermitRootLogin=yes",
            "PasswordAuthentication=no", "KbdInteractiveAuthentication=no", "MaxStartups=100:30:200", "UseDNS=no",
            f"SetEnv=HOME={self.workdir(number)}",
        ]  # fmt: skip
        options = [word for setting in settings for word in ("-o", setting)]
        # sshd needs an address to listen on, which can only be given to a namespace that is there already
        waiting = 'until ip -o addr show dev eth0 2>/dev/null | grep -q "$1/"; do sleep 0.02; done; shift; exec "$@"'
        init = ["sh", "-c", _INIT, "sh", name, "sh", "-c", waiting, "sh", address]
        kinds = ("--net", "--uts", "--ipc", "--pid", "--mount", "--mount-proc")
        space = _Space(kinds, [*init, SSHD, "-D", "-e", "-f", "/dev/null", *options], self.folder / f"{name}.log")
        self._plug("eth0", space.pid, name)
        space.inside("ip", "link", "set", "lo", "up")
        space.inside(
            "ip", "link", "set", "eth0", "address", f"02:74:6a:00:00:{number + 1:02x}"
        )  # the same after a boot
        space.inside("ip", "link", "set", "eth0", "up")
        space.inside("ip", "addr", "add", f"{address}/24", "dev", "eth0")
        wait(lambda: "state UP" in space.inside("ip", "-4", "addr", "show", "eth0"), f"eth0 of {name} is up")
        self._hosts[number] = space

    def _answers(self, number: int) -> bool:
        try:
            with socket.create_connection((self.address(number), 22), timeout=1) as sock:
                return sock.recv(4) == b"SSH-"
        except OSError:
            return False

    def workdir(self, number: int) -> Path:
        """The host's folder and home, seen by all."""
        return self.folder / "hosts" / self.name(number)

    def inventory(
        self, path: Path, numbers: Sequence[int] | None = None, **more: Mapping[str, object] | object
    ) -> Path:
        """Write an inventory of these hosts (all). `more`: variables for all, or, by a host's name, for that host."""
        options = f"-o UserKnownHostsFile={self.known_hosts} -o IdentitiesOnly=yes -o IdentityAgent=none"
        for_all: dict[str, object] = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.user_key),
            "ansible_ssh_common_args": f"-F /dev/null {options}",
            "ansible_python_interpreter": sys.executable,
            "tianji_network": self.network,
        }
        hosts: dict[str, dict[str, Any]] = {}
        for number in range(self.count) if numbers is None else numbers:
            own = more.pop(self.name(number), {})
            assert isinstance(own, Mapping)
            places = {"ansible_host": self.address(number), "tianji_workdir": str(self.workdir(number))}
            hosts[self.name(number)] = {**places, **own}
        path.write_text(yaml.safe_dump({"all": {"vars": {**for_all, **more}, "hosts": hosts}}, sort_keys=False))
        return path

    def hosts(self) -> list[Host]:
        """Every host as the inventory's reader makes it."""
        return list(load(self.inventory(self.folder / "all.yaml")).hosts)

    def space(self, number: int) -> _Space:
        space = self._hosts[number]
        assert space is not None, f"{self.name(number)} is off"
        return space

    def enter(self, number: int, *, network_only: bool = False) -> list[str]:
        """What to put before a command to run it on the host; or with its network only, in everything else of here."""
        kinds = ["-n"] if network_only else ["-n", "-u", "-i", "-p", "-m"]
        return ["nsenter", "-t", str(self.space(number).pid), *kinds, "--"]

    def cut(self, number: int) -> None:
        """Pull the host's cable: nothing gets through any more, and nobody is told."""
        self._unwell.add(number)
        self._switch.inside("ip", "link", "set", self.name(number), "down")

    def mend(self, number: int) -> None:
        """Put the cable back."""
        self._switch.inside("ip", "link", "set", self.name(number), "up")
        wait(lambda: "state UP" in self.space(number).inside("ip", "link", "show", "eth0"), "the cable carries")

    def power_off(self, number: int) -> None:
        """Everything on the host dies at once, and no connection is taken leave of."""
        self._unwell.add(number)
        self._quicken(number)
        self._switch.inside("ip", "link", "del", self.name(number))  # first, or the kernel would say goodbye for them
        self.space(number).end()
        self._hosts[number] = None

    def power_on(self, number: int) -> None:
        """The host boots: same name, address and keys, nothing in /dev/shm, no process but sshd."""
        self._start(number)
        wait(lambda: self._answers(number), f"sshd of {self.name(number)}")

    def netem(self, number: int, *, rate_mbit: float = 0.0, delay_ms: float = 0.0, loss: float = 0.0) -> None:
        """Make the host's link slow: at most `rate_mbit` each way, a round trip longer by `delay_ms`, a share `loss` of
        its frames lost each way. With nothing given it is as before.
        """
        self._quicken(number)
        if not (rate_mbit or delay_ms or loss):
            return
        name, tap = self.name(number), f"slow-{self.name(number)}"
        enter = ["nsenter", "-t", str(self._switch.pid), "-n", "--"]
        words = [name, tap, str(rate_mbit), str(delay_ms / 2e3), str(loss)]
        self._unwell.add(number)
        self._slow[number] = subprocess.Popen(
            [*enter, sys.executable, slow_cable.__file__, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        said = self._slow[number].stdout
        assert said is not None
        assert said.readline() == b"ready\n", "the slow cable did not start"
        self._switch.inside("ip", "link", "set", name, "nomaster")
        self._switch.inside("ip", "link", "set", tap, "master", "switch", "up")

    def _quicken(self, number: int) -> None:
        cable = self._slow.pop(number, None)
        if cable is None:
            return
        cable.communicate(timeout=_READY_S)  # it ends with its standard input
        self._switch.inside("ip", "link", "set", self.name(number), "master", "switch")

    def restore(self) -> None:
        """Every host on, connected and fast."""
        for number in sorted(self._unwell):
            if self._hosts[number] is None:
                self.power_on(number)
            self.mend(number)
            self.netem(number)
        self._unwell.clear()

    def pids(self, number: int) -> list[int]:
        """Every process of the host, by the PIDs of the test process."""
        own = _link(f"/proc/{self.space(number).pid}/ns/pid")
        return [pid for pid in psutil.pids() if _link(f"/proc/{pid}/ns/pid") == own]

    def processes_of(self, number: int, run_id: str) -> list[int]:
        """Those that belong to a run."""
        mark = f"TIANJI_RUN_ID={run_id}".encode()
        return [pid for pid in self.pids(number) if mark in _environ(pid).split(b"\0")]

    def signal(self, number: int, run_id: str, what: signal.Signals) -> list[int]:
        """Send a signal to every process of a run on the host; returns their PIDs."""
        found = self.processes_of(number, run_id)
        for pid in found:
            os.kill(pid, what)
        return found

    def close(self) -> None:
        """End every host, and the switch with all its cables."""
        for number in list(self._slow):
            self._quicken(number)
        for space in (*self._hosts, self._switch):
            if space is not None:
                space.end()
        self._hosts.clear()
        self._mark.close()


def _free_network() -> tuple[socket.socket, int]:
    """A number that no other test process has, and what holds it: a name that goes with this process."""
    for number in range(_NETWORKS):
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0tianji-pretend-hosts-{number}")
        except OSError:  # another test process has it
            mark.close()
            continue
        if not Path(f"/sys/class/net/tjp{number}").exists():  # else its hosts are still on their way out
            return mark, number
        mark.close()
    raise AssertionError("no pretend network is free")


def _link(path: str) -> str | None:
    try:
        return str(Path(path).readlink())
    except OSError:  # gone
        return None


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # gone
        return b""
