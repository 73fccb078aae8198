"""`tianjictl doctor` over pretend hosts that are ill in different ways, all at once."""

from __future__ import annotations

import json
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster_runs import Operator
from support.pretend_hosts import PretendHosts, wait

OFF, CLOSED, ODD = 1, 2, 3
PORTS = (5000, 5100)
FILES = 120  #: open files that sshd, and so every login, may have on the odd host
GREETING = "Welcome to cn04"


@pytest.fixture
def ill(pretend_hosts: PretendHosts, tmp_path: Path) -> Iterator[PretendHosts]:
    """cn02 is off; cn03 lets nobody in at the run's ports; cn04 is told that its name is 127.0.1.1, greets whoever logs
    in, and has few descriptors."""
    pretend_hosts.power_off(OFF)
    # A rule is asked before the table of the host's own addresses only where that is moved behind it.
    rules = (
        "add pref 100 lookup local", "del pref 0",
        f"add pref 50 iif eth0 ipproto tcp dport {PORTS[0]}-{PORTS[1]} prohibit",
    )  # fmt: skip
    for rule in rules:
        pretend_hosts.space(CLOSED).inside("ip", "rule", *rule.split())
    names = tmp_path / "hosts"
    names.write_text("127.0.0.1 localhost\n127.0.1.1 cn04\n")
    subprocess.run([*pretend_hosts.enter(ODD), "mount", "--bind", str(names), "/etc/hosts"], check=True)
    greeting = pretend_hosts.workdir(ODD) / ".bashrc"
    greeting.write_text(f"echo '{GREETING}'\n")
    resource.prlimit(pretend_hosts.space(ODD).pid, resource.RLIMIT_NOFILE, (FILES, FILES))
    try:
        yield pretend_hosts
    finally:
        greeting.unlink()
        for number in (CLOSED, ODD):  # the next boot knows nothing of all that
            pretend_hosts.power_off(number)


def test_every_host_gets_its_own_diagnosis_and_none_waits_for_another(ill: PretendHosts, tmp_path: Path) -> None:
    inventory = ill.inventory(tmp_path / "h.yaml", range(4), tianji_ports="5000-5100", ansible_ssh_timeout=2)
    operator = Operator(tmp_path / "home", inventory)
    done = operator.type("doctor", "-i", str(inventory), "--json")
    assert done.returncode == 5, done.stderr
    data = json.loads(done.stdout)["data"]
    rows = {(row["check"], row["host"]): row for row in data["checks"]}
    assert data["hosts"] == ["cn01", "cn02", "cn03", "cn04"]

    def said(check: str, host: str, severity: str, evidence: str, mend: str) -> None:
        row = rows[check, host]
        assert (row["severity"], evidence in row["evidence"], mend in (row["mend"] or "")) == (severity, True, True), (
            row
        )

    said("ssh.reach", "cn02", "fail", "connect: ", "")
    closed = f"cn01 to cn03 {ill.address(CLOSED)}:"
    said("network.ports", "cn03", "fail", closed, "sudo ufw allow proto tcp to any port 5000:5100")
    said("network.ports", "cn01", "fail", "cn01 to cn03", "on cn03, let cn01 in")
    said("network.ports", "cn04", "ok", "both ways", "")
    said("network.name", "cn04", "warn", "cn04 leads to 127.0.1.1", f"{ill.address(ODD)} cn04")
    said("limits.open_files", "cn04", "fail", f"{FILES}, which may be raised to {FILES}", "nofile")
    said("shell.prints", "cn04", "warn", GREETING, ".bashrc")
    well = {host for check, host in rows if check == "learning.gae" and rows[check, host]["severity"] == "ok"}
    assert well == {"cn01", "cn03", "cn04"}
    rest = {row["severity"] for (check, host), row in rows.items() if host == "cn02" and check != "ssh.reach"}
    assert rest == {"skip"}
    assert all(row["mend"] for row in rows.values() if row["severity"] in ("warn", "fail"))
    assert sum(data["summary"].values()) == len(rows)


def test_a_matrix_shows_what_is_amiss_where_and_the_rest_of_a_cluster_that_is_well_passes(
    ill: PretendHosts, tmp_path: Path
) -> None:
    inventory = ill.inventory(tmp_path / "h.yaml", range(4), tianji_ports="5000-5100", ansible_ssh_timeout=2)
    operator = Operator(tmp_path / "home", inventory)
    words = ["doctor", "-i", str(inventory), "--limit", "cn01,cn04", "--only", "network,shell"]
    done = operator.type(*words)
    lines = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.strip()}
    assert done.returncode == 0, done.stdout
    assert lines["check"] == ["cn01", "cn04"]
    assert lines["shell.prints"] == ["+", "ok", "!", "warn"]
    assert lines["network.ports"] == ["+", "ok", "+", "ok"]
    assert done.stdout.isascii()
    strictly = ["--only", "shell", "--strict"]
    assert operator.type(*words[:-2], *strictly).returncode == 5, "a warning is enough then"


def test_couriers_of_two_hosts_meet_and_no_process_is_left(pretend_hosts: PretendHosts, tmp_path: Path) -> None:
    inventory = pretend_hosts.inventory(tmp_path / "h.yaml", range(2))
    data: Any = Operator(tmp_path / "home", inventory).ask(
        "doctor", "-i", str(inventory), "--full", "--only", "mpi.launch"
    )
    assert [(row["host"], row["severity"]) for row in data["checks"]] == [("cn01", "ok"), ("cn02", "ok")]
    assert "cn01 met cn02 over tcp" in data["checks"][0]["evidence"]
    wait(lambda: not [pid for number in range(2) for pid in pretend_hosts.pids(number) if listens(pid)], "they leave")


def listens(pid: int) -> bool:
    try:
        return b"reach" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:  # gone
        return False
