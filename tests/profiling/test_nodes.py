"""Hosts as they are looked at over a connection: the same facts, machines told apart, cores cut to what may be used."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.plan import HostPlan
from support.plans import make_job, make_plan
from support.ssh_servers import Server
from tianjictl.errors import TianjiError, UsageProblem
from tianjictl.hosts.types import Host, Inventory
from tianjictl.launching.cluster_plan import head_of, is_this_machine, joining_host
from tianjictl.profiling.facts.cpus import Core, CpuFacts
from tianjictl.profiling.facts.network import NetworkFacts
from tianjictl.profiling.local import local_facts
from tianjictl.profiling.nodes import beside, limited, look_at, part_of, shared_out
from tianjictl.profiling.remote_facts import NodeFacts, node_facts
from tianjictl.remote.base import Completed
from tianjictl.remote.fake import FakeConnection
from tianjictl.remote.local import LocalConnection
from tianjictl.remote.reach import reach


class Counted:
    """A connection that counts what it is asked."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.runs = 0

    @property
    def host(self) -> str:
        return str(self._connection.host)

    def run(self, *words: str, **options: Any) -> Completed:
        self.runs += 1
        done: Completed = self._connection.run(*words, **options)
        return done


def local(name: str, **changes: Any) -> Host:
    return Host(name, name, connection="local", **changes)


def looked_at(*hosts: Host) -> tuple[NodeFacts, ...]:
    connections = {host.name: LocalConnection(host.name) for host in hosts}
    return look_at(hosts, connections)


def made(name: str = "n1", count: int = 8, *, quota: float | None = None, **changes: Any) -> NodeFacts:
    """This machine's facts with so many cores instead of its own."""
    facts = local_facts()
    allowed = tuple(Core(cpu=cpu, core=cpu, numa=cpu * 2 // count) for cpu in range(count))
    cpu = CpuFacts(
        online=tuple(range(count)), allowed=allowed, usable=tuple(range(count)), capacity=quota or float(count)
    )
    return NodeFacts(
        local(name, **changes), facts.model_copy(update={"name": name, "cpu": cpu}), "boot", network=NetworkFacts()
    )


def test_a_host_over_ssh_tells_what_the_same_machine_tells_of_itself_in_one_exchange(ssh_server: Server) -> None:
    host = ssh_server.host("cn01", python=sys.executable)
    with reach(host) as connection:
        counted: Any = Counted(connection)
        node = node_facts(counted, host, operator_python=sys.executable)
    here = local_facts()
    assert counted.runs == 1
    assert node.facts.name == "cn01"
    assert node.python == sys.executable
    for field in ("cpu", "nics", "boot_id", "machine_id", "kernel", "python", "packages"):
        assert getattr(node.facts, field) == getattr(here, field), field
    assert node.facts.memory.limit_bytes == here.memory.limit_bytes
    assert node.facts.disk is not None
    assert node.facts.disk.free_bytes > 0
    assert any(address.address == "127.0.0.1" for address in node.network.addresses)


def test_control_groups_that_were_not_foreseen_cost_one_exchange_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tianjictl.profiling.facts.raw.cgroup_files", lambda *_: ["/proc/version", "/proc/absent/x"])
    counted: Any = Counted(LocalConnection("n1"))
    node = node_facts(counted, local("n1"), operator_python=sys.executable)
    assert counted.runs == 2
    assert node.facts.cpu.usable


def test_a_host_that_is_no_linux_says_so() -> None:
    with pytest.raises(TianjiError, match="cn01: it has no /proc"):
        node_facts(FakeConnection("cn01"), Host("cn01", "cn01"), operator_python=sys.executable)


def test_interpreters_are_looked_for_and_the_first_that_will_do_is_taken(tmp_path: Path) -> None:
    host = local("n1", workdir=str(tmp_path))
    with LocalConnection("n1") as connection:
        old = tmp_path / "old"
        old.write_text("#!/bin/sh\nexit 1\n")
        old.chmod(0o755)
        assert node_facts(connection, replace(host, python=str(old)), operator_python="").python is None
        venv = tmp_path / "venv" / "bin" / "python"
        venv.parent.mkdir(parents=True)
        venv.symlink_to(sys.executable)
        there = replace(host, connection="ssh")
        assert node_facts(connection, there, operator_python="python3").python is not None
        nothing = node_facts(connection, replace(host, python=str(tmp_path / "none")), operator_python="")
        assert (nothing.python, nothing.facts.python, nothing.facts.packages) == (None, "", {})


def test_two_names_for_one_machine_are_refused_with_both(ssh_server: Server) -> None:
    hosts = [ssh_server.host("cn01"), ssh_server.host("cn02", address="127.0.0.4"), local("here")]
    connections = {host.name: reach(host) for host in hosts}
    with pytest.raises(UsageProblem) as caught:
        look_at(hosts, connections)
    for connection in connections.values():
        connection.close()
    where = f"127.0.0.4 port {ssh_server.port}"
    assert f"hosts cn01 ({where}) and cn02 ({where}) and here (this machine) are one machine" in caught.value.message


def test_every_host_that_cannot_be_looked_at_is_named() -> None:
    hosts = [Host("a", "a"), local("here"), Host("b", "b")]
    connections: Any = {"a": FakeConnection("a"), "here": LocalConnection("here"), "b": FakeConnection("b")}
    with pytest.raises(TianjiError) as caught:
        look_at(hosts, connections)
    assert [finding.message.partition(":")[0] for finding in caught.value.findings()] == ["a", "b"]


def test_nodes_of_this_machine_share_its_cores_without_one_in_common() -> None:
    nodes = looked_at(local("n1"), local("n2"))
    here = local_facts()
    if len(here.cpu.usable) >= 2:
        assert not set(nodes[0].facts.cpu.usable) & set(nodes[1].facts.cpu.usable)
    assert {cpu for node in nodes for cpu in node.facts.cpu.usable} <= set(here.cpu.usable)
    assert sum(node.facts.memory.limit_bytes for node in nodes) <= here.memory.limit_bytes


@pytest.mark.parametrize(
    ("count", "parts", "expect"),
    [
        (8, 2, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        (8, 3, [(0, 1, 2), (3, 4, 5), (6, 7)]),
        (2, 2, [(0,), (1,)]),
        (2, 4, [(0,), (1,), (0,), (1,)]),
        (1, 2, [(0,), (0,)]),
    ],
)
def test_parts_of_a_machine_are_even_and_whole(count: int, parts: int, expect: list[tuple[int, ...]]) -> None:
    facts = made(count=count).facts
    split = [part_of(facts, index, parts) for index in range(parts)]
    assert [part.cpu.usable for part in split] == expect
    assert sum(part.cpu.capacity for part in split) == pytest.approx(count)


def test_a_quota_is_shared_out_too_and_hosts_elsewhere_keep_all_they_have() -> None:
    far = replace(made("far"), host=Host("far", "far"))
    n1, n2, elsewhere = shared_out([made("n1", 4, quota=3.0), made("n2", 4, quota=3.0), far])
    assert n1.facts.cpu.capacity + n2.facts.cpu.capacity == pytest.approx(3.0)
    assert elsewhere is far


def test_a_node_more_on_this_machine_gets_what_the_others_do_not_have() -> None:
    facts = made(count=4).facts
    assert beside(facts, [{0, 1}, {2}]).cpu.usable == (3,)
    assert beside(facts, []) is facts
    assert set(beside(facts, [{0, 1}, {2, 3}]).cpu.usable) < {0, 1, 2, 3}


def test_a_host_that_joins_a_run_takes_its_network() -> None:
    plan = make_plan(make_job()).model_copy(
        update={"hosts": (HostPlan(name="head", cores=(0,), network="127.0.0.0/8"),)}
    )
    with LocalConnection("n2") as connection:
        made_host = joining_host(local("n2"), connection, plan, [local("head")])
        assert (made_host.name, made_host.network) == ("n2", "127.0.0.0/8")
        if len(local_facts().cpu.usable) > 1:
            assert 0 not in made_host.cores
        with pytest.raises(UsageProblem, match=r"n2 has no address in 203\.0\.113\.0/24"):
            joining_host(local("n2", network="203.0.113.0/24"), connection, plan, [])


def test_cores_that_are_left_to_others_are_not_used() -> None:
    node = made(count=8, reserve_cores=3)
    assert limited(node).facts.cpu.usable == (0, 1, 2, 3, 4)
    assert limited(made(count=8, max_cores=2)).facts.cpu.usable == (0, 1)
    assert limited(made(count=8, max_cores=20)).facts.cpu.usable == tuple(range(8))
    assert limited(made(count=8, quota=7.5, reserve_cores=2)).facts.cpu.capacity == 5.5
    with pytest.raises(UsageProblem, match="n1: tianji_reserve_cores is 8, and it has 8 usable"):
        limited(made(count=8, reserve_cores=8))


def test_hardware_threads_are_given_up_first() -> None:
    node = made(count=4)
    cores = tuple(Core(cpu=cpu, core=cpu // 2, thread=cpu % 2) for cpu in range(4))
    cpu = node.facts.cpu.model_copy(update={"allowed": cores})
    node = replace(node, facts=node.facts.model_copy(update={"cpu": cpu}), host=local("n1", max_cores=2))
    assert limited(node).facts.cpu.usable == (0, 2)


def test_the_head_is_the_first_host_here_that_may_hold_a_learner() -> None:
    far, near, actor = Host("far", "far"), local("near"), local("actor", roles=("actor",))
    assert head_of([far, actor, near]).name == "near"
    assert head_of([actor, far]).name == "far"
    assert head_of([far, near], "far").name == "far"
    for hosts, wanted, why in (
        ([actor], None, "no host of the inventory may hold a learner"),
        ([far, actor], "actor", "its tianji_roles allow no learner"),
        ([far], "other", "there is no such host"),
    ):
        with pytest.raises(UsageProblem, match=why):
            head_of(hosts, wanted)


def test_this_machine_alone_needs_nothing_of_many_hosts() -> None:
    assert is_this_machine(Inventory(None, (local("localhost"),)))
    assert not is_this_machine(Inventory(None, (local("n1"),)))
    assert not is_this_machine(Inventory(None, (local("localhost", max_cores=1),)))
    assert not is_this_machine(Inventory(None, (local("localhost"), local("n1"))))
