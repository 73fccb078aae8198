"""Checks that compare hosts, or look at what lies between them, against made-up facts."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.contract.selfcheck import SelfcheckFinding, SelfcheckReport
from support.examined import facts, finding, host, several, software
from tianjictl.doctor.finding import Finding, Severity
from tianjictl.doctor.registry import CHECKS
from tianjictl.doctor.report import judge
from tianjictl.doctor.situation import Examined, Road
from tianjictl.profiling.facts.fabric import FabricFacts
from tianjictl.profiling.facts.gpus import GpuFacts
from tianjictl.profiling.facts.mpi import MpiFacts
from tianjictl.profiling.facts.names import NameFacts
from tianjictl.profiling.facts.nics import NicFacts
from tianjictl.profiling.facts.rdma import RdmaPort

NO_MPI = software(missing={"mpi4py.MPI": "RuntimeError: cannot load MPI library"})
DOWN = RdmaPort(device="mlx5_0", port=1, state="DOWN")
UP = RdmaPort(device="mlx5_0", port=1, state="ACTIVE", gbit_per_s=100.0)
OTHER_NUMPY = {"gymnasium": "1.2.0", "numpy": "1.26.4", "pydantic": "2.9.0"}
OTHER_PYDANTIC = {"gymnasium": "1.2.0", "numpy": "2.1.3", "pydantic": "2.8.0"}
GPU = GpuFacts(index=0, name="A100", driver="550.54")


def name(*addresses: str) -> NameFacts:
    return NameFacts(hostname="cn01", resolves_to=addresses)


def nic(**changes: Any) -> tuple[NicFacts, ...]:
    return (NicFacts(name="eth0", up=True, mtu=1500, state="up").model_copy(update=changes),)


#: check, changes of cn01, changes of cn02, what it comes to for cn01, words of the evidence, words of the mend
TABLE: list[tuple[str, dict[str, Any], dict[str, Any], str, str, str]] = [
    ("host.duplicate", {}, {}, "ok", "calls itself cn01", ""),
    ("host.duplicate", {}, {"identity": "cn01"}, "fail", "the same machine as cn02", "out of the inventory"),
    ("host.duplicate", {"here": True}, {"here": True, "identity": "cn01"}, "info", "shared with cn02", ""),
    ("host.duplicate", {}, {"names": NameFacts(hostname="cn01")}, "warn", "so does cn02", "hostnamectl"),
    ("sched.autogroup", {"limits": facts().limits.model_copy(update={"autogroup": True})}, {"identity": "cn01"}, "warn",
     "2 nodes on this machine", "sched_autogroup_enabled=0"),
    ("versions.agree", {}, {}, "ok", "as on the other hosts", ""),
    ("versions.agree", {"python": "3.11.2"}, {}, "ok", "", ""),  # of two hosts the first is the one to follow
    ("versions.agree", {"python": ""}, {}, "skip", "no Python", ""),
    ("mpi.library", {}, {}, "ok", "MPICH 5.0.2, mpi4py 4.1.0", ""),
    ("mpi.library", {"software": NO_MPI}, {}, "fail", "cannot load MPI library", "playbook bootstrap"),
    ("mpi.library", {}, {"mpi": MpiFacts(library="Open MPI 5.0.7")}, "fail", "cn02 Open MPI 5.0", "playbook bootstrap"),
    ("mpi.library", {}, {"mpi": MpiFacts(library="MPICH 4.3.1")}, "warn", "cn02 MPICH 4.3", "playbook bootstrap"),
    ("mpi.library", {}, {"mpi": MpiFacts(library="MPICH 5.0.9")}, "ok", "MPICH 5.0.2", ""),
    ("mpi.library", {"host_mpi_abi": "/usr/lib/m.so"}, {}, "ok", "tianji_mpi_abi /usr/lib/m.so", ""),
    ("mpi.library", {"mpi": MpiFacts(library="MPICH 5.0.2", mpiexec="/usr/bin/mpiexec", family="Open MPI",
                                     version="4.1")}, {}, "info",
     "/usr/bin/mpiexec is Open MPI 4.1, and is not used", ""),
    ("mpi.library", {"software": None}, {}, "skip", "no Python", ""),
    ("network.name", {}, {}, "ok", "leads to 10.0.0.1", ""),
    ("network.name", {"names": name("127.0.1.1")}, {}, "warn", "leads to 127.0.1.1", "10.0.0.1 cn01"),
    ("network.name", {"names": name("127.0.1.1"), "host_mpi_abi": "/usr/lib/m.so"}, {}, "fail",
     "tells others this name", "10.0.0.1 cn01"),
    ("network.name", {"names": name()}, {}, "info", "leads nowhere", "tee -a /etc/hosts"),
    ("network.name", {"names": NameFacts()}, {}, "skip", "does not say", ""),
    ("network.address", {}, {}, "ok", "10.0.0.1 (eth0) in 10.0.0.0/24", ""),
    ("network.address", {"address": "192.168.7.1"}, {}, "fail", "no address in 10.0.0.0/24",
     "inventory show cn01 --origin"),
    ("network.address", {}, {"address": "10.0.0.1"}, "fail", "cn02 has the same", "set tianji_network"),
    ("network.address", {"nics": nic(state="down")}, {}, "fail", "eth0 is down", "ip link set eth0 up"),
    ("network.address", {"nics": nic(mtu=9000)}, {}, "warn", "cn01 9000, cn02 1500", "ip link set eth0 mtu 1500"),
    ("network.address", {"nics": nic(mtu=9000)}, {"nics": nic(mtu=9000)}, "ok", "10.0.0.1", ""),
    ("rdma.devices", {}, {}, "ok", "there is none", ""),
    ("rdma.devices", {"rdma": (UP,)}, {}, "info", "mlx5_0 port 1 ACTIVE 100 Gbit/s", ""),
    ("rdma.devices", {"rdma": (DOWN,)}, {}, "warn", "no port is active", "rdma link"),
    ("fabric.provider", {}, {}, "ok", "tcp", ""),
    ("fabric.provider", {"rdma": (UP,), "fabric": FabricFacts(why="no provider verbs")}, {}, "warn", "left unused",
     "fi_info"),
    ("fabric.provider", {"fabric": FabricFacts(chosen="verbs")}, {}, "fail", "cn01 verbs, cn02 tcp", "FI_PROVIDER"),
    ("fabric.provider", {"fabric": FabricFacts(chosen="sockets")}, {"fabric": FabricFacts(chosen="sockets")}, "fail",
     "ends the process", "unset FI_PROVIDER"),
    ("gpu.driver", {"gpus": (GPU,)}, {"gpus": (GPU.model_copy(update={"driver": "535.1"}),)}, "warn", "535.1, 550.54",
     "only-upgrade"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "first", "second", "severity", "evidence", "mend"),
    TABLE,
    ids=[f"{row[0]}-{row[3]}-{number}" for number, row in enumerate(TABLE)],
)
def test_a_check_says(
    check: str, first: dict[str, Any], second: dict[str, Any], severity: str, evidence: str, mend: str
) -> None:
    row = finding(check, host("cn01", **first), host("cn02", **second))
    assert row.severity == severity, row.evidence
    assert evidence in row.evidence
    assert mend in (row.mend or "")


@pytest.mark.parametrize(
    ("changes", "severity", "evidence"),
    [
        ({"python": "3.11.2"}, "warn", "Python 3.11 where others have 3.12"),
        ({"packages": OTHER_NUMPY}, "warn", "numpy 1.26 where others have 2.1"),
        ({"packages": OTHER_PYDANTIC}, "info", "pydantic 2.8.0 where others have 2.9.0"),
    ],
)
def test_the_odd_one_among_three_hosts_is_told_from_the_others(
    changes: dict[str, Any], severity: str, evidence: str
) -> None:
    odd, *others = host("cn03", **changes), host("cn01"), host("cn02")
    row = finding("versions.agree", odd, *others)
    assert (row.severity, row.evidence) == (severity, evidence)
    assert finding("versions.agree", others[0], odd, others[1]).severity is Severity.OK


def roads(*found: Road, check: str = "network.ports", **changes: Any) -> Finding:
    known = {"meetings": found} if check == "mpi.launch" else {"roads": found}
    return finding(check, host(**changes), host("cn02"), **known)


THERE = Road("cn01", "cn02", "10.0.0.2:5000", 0.002)
BACK = Road("cn02", "cn01", "10.0.0.1:5000", 0.004)


def test_ports_that_are_open_both_ways_are_well_unless_there_are_few() -> None:
    assert roads(THERE, BACK).evidence == "any port, both ways in 4 ms"
    few = roads(THERE, BACK, host_ports=(5000, 5003))
    assert (few.severity, few.evidence) == ("warn", "ports 5000-5003, both ways in 4 ms, but there are few of them")


def test_a_port_that_is_closed_one_way_fails_at_both_ends_and_says_which_way() -> None:
    closed = Road("cn02", "cn01", "10.0.0.1:5000", problem="Connection refused")
    row = roads(THERE, closed, host_ports=(5000, 5100))
    assert (row.severity, row.evidence) == ("fail", "cn02 to cn01 10.0.0.1:5000: Connection refused")
    assert row.mend == "on cn01, let cn02 in: sudo ufw allow proto tcp to any port 5000:5100"


def test_a_range_without_a_free_port_is_not_the_firewalls_fault() -> None:
    row = roads(Road("cn02", "cn01", "", problem="nothing can listen: no port of (5000, 5001) is free"))
    assert row.severity is Severity.FAIL
    assert "set tianji_ports" in (row.mend or "")


def test_ports_and_meetings_that_nobody_has_tried_are_no_failure() -> None:
    for check in ("network.ports", "mpi.launch"):
        assert finding(check, host()).severity is Severity.SKIP
        assert finding(check, host(), roads=(), meetings=()).evidence == "there was no other host to try with"


def test_couriers_that_meet_say_over_what_and_those_that_do_not_name_what_to_look_at() -> None:
    met = roads(Road("cn01", "cn02", "verbs;ofi_rxm, MPICH", 0.5), check="mpi.launch")
    assert (met.severity, met.evidence) == ("ok", "cn01 met cn02 over verbs;ofi_rxm, MPICH in 0.5 s")
    lost = roads(Road("cn01", "cn02", "port", problem="no peer within 5 s"), check="mpi.launch")
    assert lost.severity is Severity.FAIL
    assert "--only network.ports,fabric.provider,mpi.library" in (lost.mend or "")


def alone(check: str, one: Examined) -> Finding:
    row = judge(several(one, inventory=None), only=frozenset({check})).at(check, one.name)
    assert row is not None
    return row


def test_one_machine_needs_neither_names_nor_ports_nor_mpi() -> None:
    for check in ("network.name", "network.ports", "mpi.launch", "versions.agree"):
        assert alone(check, host(here=True)).severity is Severity.SKIP
    assert alone("network.address", host(here=True, host_network=None)).severity is Severity.SKIP
    assert alone("mpi.library", host(here=True, software=NO_MPI)).severity is Severity.WARN
    assert alone("shm.size", host(here=True, shm=None)).severity is Severity.INFO
    locked = facts().limits.model_copy(update={"memlock_bytes": 65536})
    row = alone("limits.memlock", host(here=True, limits=locked, fabric=FabricFacts(chosen="verbs")))
    assert row.severity is Severity.INFO


def test_a_network_that_nobody_names_is_told_and_one_that_cannot_be_found_fails() -> None:
    one, other = host(host_network=None), host("cn02")
    routed = finding("network.address", one, other, networks={"cn01": "10.0.0.0/24", "cn02": "10.0.0.0/24"})
    assert (routed.severity, routed.mend) == ("info", "set tianji_network: 10.0.0.0/24 for cn01 in the inventory")
    assert finding("network.address", one, other, networks={"cn01": None}).severity is Severity.FAIL


def test_an_environment_that_only_the_planning_machine_lacks_fails_once() -> None:
    job = {"env_id": "pkg.mod:make", "env_problem": "no module pkg"}
    failed = finding("job.environment", host(), **job)
    assert (failed.severity, failed.mend) == (
        "fail",
        "install what it needs beside tianjictl, such as: pip install pkg.mod",
    )
    report = judge(several(host(), host("cn02"), **job), only=frozenset({"job.environment"}))
    assert [row.severity for row in report.findings] == ["fail", "skip"]
    assert finding("job.environment", host(), env_id="CartPole-v1").severity is Severity.OK
    assert finding("job.environment", host()).severity is Severity.SKIP


def proof(check: str, passed: bool | None, **words: str) -> SelfcheckFinding:
    return SelfcheckFinding(check=check, ok=passed, evidence=f"looked at {check}", took_s=0.0, **words)


def test_proofs_of_the_learning_code_are_rows_of_their_own() -> None:
    found = SelfcheckReport(
        findings=(proof("gae", True), proof("autoreset", False, expected="same-step", seen="none"), proof("odd", None)),
        took_s=0.1,
    )
    rows = judge(several(host(selfcheck=found), env_id="CartPole-v1"), only=frozenset({"learning"})).findings
    assert [(row.check, row.severity) for row in rows] == [
        ("learning.gae", "ok"), ("learning.autoreset", "fail"), ("learning.odd", "skip"),
    ]  # fmt: skip
    assert rows[1].evidence == "looked at autoreset: expected same-step, saw none"
    assert "CartPole-v1" in (rows[1].mend or "")
    broken = host(selfcheck_problem="it ended with status 1")
    (row,) = judge(several(broken), only=frozenset({"learning.code"})).findings
    assert (row.severity, "playbook bootstrap" in (row.mend or "")) == ("fail", True)


def test_proofs_of_several_hosts_stand_side_by_side_and_hosts_without_any_say_so() -> None:
    one = host(selfcheck=SelfcheckReport(findings=(proof("gae", True), proof("n-step", False)), took_s=0.1))
    two = host("cn02", selfcheck=SelfcheckReport(findings=(proof("gae", True), proof("n-step", True)), took_s=0.1))
    report = judge(several(one, two, host("cn03", software=None, software_problem="no python3")))
    learning = [(row.check, row.host) for row in report.findings if row.check.startswith("learning.")]
    assert learning == [
        ("learning.gae", "cn01"), ("learning.gae", "cn02"), ("learning.n-step", "cn01"), ("learning.n-step", "cn02"),
        ("learning.code", "cn03"),
    ]  # fmt: skip
    assert "tianjictl playbook bootstrap" in (report.findings[-3].mend or ""), "code that fails is installed anew"


def test_every_check_has_an_id_of_its_own_with_a_theme() -> None:
    ids = [check.id for check in CHECKS]
    assert len(set(ids)) == len(ids)
    assert all(each.count(".") == 1 for each in ids)
