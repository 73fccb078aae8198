"""The pretend hosts are what they claim to be: reached over SSH, apart from each other, cut off and switched off."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from support.pretend_hosts import PretendHosts, wait
from tianjictl.hosts.types import Host
from tianjictl.remote.base import Connection
from tianjictl.remote.fanout import Ok, fan_out
from tianjictl.remote.processes import start_detached
from tianjictl.remote.reach import reach


def asked(host: Host, script: str) -> str:
    with reach(host) as connection:
        return connection.run(script).text


def started(connection: Connection, run_id: str) -> None:
    start_detached(connection, ["sleep", "60"], log="sleep.log", environment={"TIANJI_RUN_ID": run_id})


def test_every_host_is_reached_over_ssh_and_is_a_machine_of_its_own(pretend_hosts: PretendHosts) -> None:
    hosts = {host.name: host for host in pretend_hosts.hosts()}
    script = (
        'echo "$(hostname) $HOME $(ls /dev/shm | wc -l) $(readlink /proc/self/ns/net) $(ls -d /proc/[0-9]* | wc -l)"'
    )
    outcomes = fan_out(hosts, lambda host: asked(host, script))
    said = {name: outcome.value.split() for name, outcome in outcomes.items() if isinstance(outcome, Ok)}
    assert list(said) == pretend_hosts.names
    assert [words[0] for words in said.values()] == pretend_hosts.names
    assert [words[1] for words in said.values()] == [str(pretend_hosts.workdir(n)) for n in range(pretend_hosts.count)]
    assert {words[2] for words in said.values()} == {"0"}
    assert len({words[3] for words in said.values()}) == pretend_hosts.count
    assert all(int(words[4]) < 20 for words in said.values()), "it sees processes of others"


def test_hosts_reach_each_other_and_the_operator(pretend_hosts: PretendHosts) -> None:
    for address in (*pretend_hosts.addresses, pretend_hosts.operator):
        probe = "import socket, sys; s = socket.socket(); s.settimeout(2); print(s.connect_ex((sys.argv[1], 22)))"
        command = [*pretend_hosts.enter(0), sys.executable, "-c", probe, address]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        assert said in ({"0"} if address != pretend_hosts.operator else {"0", "111"}), "refused is an answer too"


def test_processes_of_a_run_are_found_and_signalled_on_their_host_only(pretend_hosts: PretendHosts) -> None:
    with reach(pretend_hosts.hosts()[1]) as connection:
        started(connection, "r-one")
        started(connection, "r-other")
    assert pretend_hosts.processes_of(0, "r-one") == []
    (pid,) = pretend_hosts.processes_of(1, "r-one")
    assert pid in pretend_hosts.pids(1)
    assert pretend_hosts.signal(1, "r-one", signal.SIGKILL) == [pid]
    wait(lambda: pretend_hosts.processes_of(1, "r-one") == [], "it is gone")
    assert len(pretend_hosts.signal(1, "r-other", signal.SIGKILL)) == 1


def test_a_cut_host_is_silent_keeps_its_processes_and_comes_back(pretend_hosts: PretendHosts) -> None:
    before = set(pretend_hosts.pids(2))
    pretend_hosts.cut(2)
    assert not pretend_hosts._answers(2)
    assert pretend_hosts._answers(3)
    pretend_hosts.mend(2)
    wait(lambda: pretend_hosts._answers(2), "it answers")
    assert before & set(pretend_hosts.pids(2))


def test_a_host_without_power_loses_everything_and_boots_with_the_same_address(pretend_hosts: PretendHosts) -> None:
    host = pretend_hosts.hosts()[3]
    with reach(host) as connection:
        started(connection, "r-lost")
        connection.run("echo x >/dev/shm/left")
    (pid,) = pretend_hosts.processes_of(3, "r-lost")
    pretend_hosts.power_off(3)
    assert not Path(f"/proc/{pid}").exists()
    assert not pretend_hosts._answers(3)
    pretend_hosts.power_on(3)
    assert asked(host, "ls /dev/shm") == ""
    assert pretend_hosts.processes_of(3, "r-lost") == []


def test_a_slow_link_is_slow(pretend_hosts: PretendHosts) -> None:
    pretend_hosts.netem(1, rate_mbit=100, delay_ms=50)
    probe = (
        "import socket, sys, time; began = time.monotonic(); socket.create_connection((sys.argv[1], 22)); "
        "print(time.monotonic() - began)"
    )
    command = [*pretend_hosts.enter(1), sys.executable, "-c", probe, pretend_hosts.address(0)]
    slow = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    pretend_hosts.netem(1)
    fast = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert 0.05 <= slow < 0.2
    assert fast < 0.05


@pytest.mark.usefixtures("pretend_hosts")
def test_nothing_is_left_when_the_test_process_is_killed(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from support.pretend_hosts import PretendHosts
        hosts = PretendHosts(Path(sys.argv[1]))
        hosts.up(1)
        print(hosts._port, *hosts.pids(0), hosts._switch.pid, flush=True)
        sys.stdin.read()
    """)
    paths = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        port, *pids = process.stdout.readline().split()
        process.kill()
    assert pids, "it never got up"
    wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "its processes are gone")
    wait(lambda: not Path(f"/sys/class/net/{port}").exists(), "its network is gone")
