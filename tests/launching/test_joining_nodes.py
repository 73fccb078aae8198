"""A host joins a run that lives: prepared with nothing started, then started; or nothing of it is left."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tianjictl.errors import TianjiError, UsageProblem
from tianjictl.launching import cluster
from tianjictl.launching.cluster import add_nodes, start_nodes
from tianjictl.launching.host_check import HostCheck
from tianjictl.runs.processes import processes_of
from tianjictl.runs.registry import open_run

_refuse_second_names = cluster.refuse_second_names


def silent(_line: str) -> None:
    pass


@pytest.fixture(autouse=True)
def _each_host_is_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hosts of these tests are several names of this machine."""
    monkeypatch.setattr(cluster, "refuse_second_names", lambda *_: None)


@pytest.mark.usefixtures("agents")
def test_a_host_is_prepared_first_and_started_when_asked(hosts, launched):
    run = launched(hosts("cn01"))
    inventory = hosts("cn01", "cn02", fresh=True)
    lines: list[str] = []
    [made] = add_nodes(run, inventory, ["cn02"], lines.append)
    assert (made.name, made.network) == ("cn02", "127.0.0.0/8")
    assert made.cores
    assert len(processes_of(run.run_id)) == 1
    start_nodes(run, ["cn02"], lines.append)
    assert len(processes_of(run.run_id)) == 2
    assert [line.removeprefix("cn02: ").split()[0] for line in lines] == ["reached", "checked:", "runtime", "agent"]
    known = open_run(run.paths.root)
    assert [node.name for node in known.nodes] == ["cn01", "cn02"]
    assert known.nodes[1].started
    order = json.loads((Path(known.nodes[1].folder) / "order.json").read_text())
    assert (order["coordinator"], order["head"]) == ("tcp://127.0.0.1:40001", False)


@pytest.mark.usefixtures("agents")
def test_asking_what_would_be_notes_and_stages_nothing(hosts, launched, tmp_path):
    run = launched(hosts("cn01"))
    add_nodes(run, hosts("cn01", "cn02", fresh=True), ["cn02"], silent, dry_run=True)
    assert [node.name for node in open_run(run.paths.root).nodes] == ["cn01"]
    assert list((tmp_path / "cn02" / "stage").iterdir()) == []


def test_an_agent_that_does_not_start_is_gone_and_the_others_of_its_machine_go_on(hosts, launched, agents):
    agents(cn02="refuse")
    run = launched(hosts("cn01"))
    before = {process.pid for process in processes_of(run.run_id)}
    add_nodes(run, hosts("cn01", "cn02"), ["cn02"], silent)
    with pytest.raises(TianjiError, match="cn02: start: no memory for the rings"):
        start_nodes(run, ["cn02"], silent)
    assert {process.pid for process in processes_of(run.run_id)} == before


@pytest.mark.usefixtures("agents")
def test_a_host_that_cannot_join_is_refused_with_the_reason(hosts, launched):
    run = launched(hosts("cn01"))
    with pytest.raises(UsageProblem, match="has no host cn09"):
        add_nodes(run, hosts("cn01"), ["cn09"], silent)
    with pytest.raises(UsageProblem, match=r"cn02 has no address in 10\.99\.0\.0/24"):
        add_nodes(run, hosts("cn01", "cn02", cn02={"network": "10.99.0.0/24"}), ["cn02"], silent)


@pytest.mark.usefixtures("agents")
def test_a_machine_of_the_run_does_not_join_it_by_another_name(hosts, launched, tmp_path, monkeypatch):
    run = launched(hosts("cn01"))
    monkeypatch.setattr(cluster, "refuse_second_names", _refuse_second_names)
    inventory = hosts("cn01", "cn02", "cn03", fresh=True)
    with pytest.raises(UsageProblem, match="cn02 and cn01 are one machine") as caught:
        add_nodes(run, inventory, ["cn02"], silent)
    assert f"tianjictl scale {run.run_id}" in str(caught.value.hint or caught.value.first_hint)
    assert [node.name for node in open_run(run.paths.root).nodes] == ["cn01"]
    assert list((tmp_path / "cn02" / "stage").iterdir()) == []
    assert add_nodes(run, inventory, ["cn01"], silent, dry_run=True)  # by its own name it may come back


@pytest.mark.usefixtures("agents")
def test_nodes_of_this_machine_may_be_many_and_unknown_machines_are_let_in(hosts, launched):
    run = launched(hosts("cn01"))
    check = HostCheck(python="p", version=(3, 11), state="/s", machine=open_run(run.paths.root).nodes[0].machine)
    assert check.machine
    (host,) = hosts("cn02").hosts
    unknown = check.model_copy(update={"machine": ""})
    _refuse_second_names({"cn02": host, "cn03": host}, {"cn02": unknown, "cn03": unknown}, run)
    here = {name: replace(host, name=name, connection="local") for name in ("n2", "n3")}
    other = check.model_copy(update={"machine": "another"})
    _refuse_second_names(here, dict.fromkeys(here, other), run)
    with pytest.raises(UsageProblem, match="n3 and n2 are one machine"):
        mixed = here | {"n3": replace(host, name="n3")}
        _refuse_second_names(mixed, dict.fromkeys(mixed, other), run)
