"""`plan` and `profile` over an inventory: rates of each host, files for MPI, and saved plans that go stale."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.envspec import EnvSpec
from runtime.contract.job import Job
from runtime.contract.measurement import ActorRate, LearnerRate, MeasureReport, MeasureRequest, Spread
from runtime.contract.plan import Plan
from support.ssh_servers import Server
from tianjictl.cli.main import main
from tianjictl.errors import PlanStale, Unreachable
from tianjictl.hosts.reader import read
from tianjictl.hosts.types import Host, Inventory
from tianjictl.launching import cluster_profile
from tianjictl.launching.cluster_plan import plan_for
from tianjictl.launching.cluster_profile import measure_all
from tianjictl.launching.fleet import Fleet
from tianjictl.launching.stale import check_hosts_still_valid, with_origin
from tianjictl.profiling import store
from tianjictl.profiling.local import measured_sizes
from tianjictl.profiling.nodes import look_at
from tianjictl.profiling.profile import ClusterProfile, HostProfile, profile_key
from tianjictl.profiling.rates import known_rates
from tianjictl.remote.local import LocalConnection
from tianjictl.remote.reach import reach

CARTPOLE = EnvSpec(id="CartPole-v1", observation_shape=(4,), num_actions=2, native_vector=True, autoreset="next-step")
JOB = Job.model_validate({"name": "test", "env": {"id": "CartPole-v1"}, "algorithm": {"name": "ppo"}})
NODES = "all: {vars: {ansible_connection: local}, hosts: {'node[1:2]': }}\n"


@pytest.fixture(autouse=True)
def own_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIANJICTL_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def nodes() -> Iterator[tuple[Inventory, Fleet]]:
    inventory = read(NODES.encode(), "hosts.yaml")
    with Fleet({host.name: host for host in inventory.hosts}) as fleet:
        assert fleet.reach(progress=lambda _line: None) == {}
        yield inventory, fleet


@pytest.fixture
def inventory_file(tmp_path: Path) -> str:
    (tmp_path / "hosts.yaml").write_text(NODES)
    return str(tmp_path / "hosts.yaml")


def report(actor: float) -> MeasureReport:
    def known(value: float) -> Spread:
        return Spread(median=value, low=value, high=value, repeats=1)

    return MeasureReport(
        actors=(ActorRate(num_envs=64, busy_neighbours=0, steps_per_s=known(actor)),),
        learners=(LearnerRate(cores=1, samples_per_s=known(50_000)),),
        fragment_samples=2048,
        buffer_s_per_fragment=known(1e-4),
        memcpy_mb_per_s=known(10_000),
        checkpoint_mb_per_s=known(500),
    )


def keep(inventory: Inventory, fleet: Fleet, rates: dict[str, float]) -> None:
    """Put measurements of these hosts into the cache."""
    for node in look_at(inventory.hosts, fleet.connections):
        if node.host.name in rates:
            measured = HostProfile(facts=node.facts, measured=report(rates[node.host.name]))
            key = profile_key(node.facts, JOB, measured_sizes(JOB, CARTPOLE))
            store.keep(ClusterProfile(key=key, created_at="2026-01-01T00:00:00Z", hosts=(measured,)))


def planned(inventory: Inventory, fleet: Fleet, **options: Any) -> Plan:
    return plan_for(inventory, fleet.connections, JOB, shape="L1A2", oversubscribe=True, **options)


def test_a_plan_over_an_inventory_names_its_hosts_and_what_is_known_of_them(nodes) -> None:
    plan = planned(*nodes)
    assert [host.name for host in plan.hosts] == ["node1", "node2"]
    assert [host.network for host in plan.hosts] == ["127.0.0.0/8"] * 2
    assert {placement.host for placement in plan.placements} == {"node1", "node2"}
    assert plan.predicted.samples_per_s is None
    assert planned(*nodes, head="node2").head == "node2"


def test_rates_come_from_each_hosts_own_profile_and_a_missing_one_from_a_host_alike(nodes) -> None:
    keep(*nodes, {"node1": 10_000.0})
    plan = planned(*nodes)
    assert plan.predicted.samples_per_s is not None
    assert any(note.startswith("node2 was not measured and is taken to be as fast as node1") for note in plan.notes)
    keep(*nodes, {"node2": 30_000.0})
    seen = look_at(nodes[0].hosts, nodes[1].connections)
    rates = known_rates(seen, JOB, CARTPOLE)
    assert {name: each.actors[0].steps_per_s.median for name, each in rates.reports.items()} == {
        "node1": 10_000.0, "node2": 30_000.0,
    }  # fmt: skip
    assert rates.notes == ()
    assert rates.digest != plan.fingerprints.profile


def test_a_saved_plan_is_stale_once_a_host_or_a_rate_or_its_job_has_changed(nodes, tmp_path: Path) -> None:
    inventory, fleet = nodes
    file = tmp_path / "job.yaml"
    file.write_text("name: a\n")
    keep(inventory, fleet, {"node1": 10_000.0})
    plan = with_origin(planned(inventory, fleet), file, None, "hosts.yaml")
    check_hosts_still_valid(plan, inventory, fleet.connections)
    other = read(NODES.replace("'node[1:2]': ", "node1: , node2: {tianji_roles: actor}").encode(), "hosts.yaml")
    with pytest.raises(PlanStale, match="node2: not what the plan was made for") as caught:
        check_hosts_still_valid(plan, other, fleet.connections)
    assert f"tianjictl plan {file} -i {Path('hosts.yaml').absolute()}" in str(caught.value.hint)
    less = read(NODES.replace("node[1:2]", "node1").encode(), "hosts.yaml")
    with pytest.raises(PlanStale, match=r"hosts\.yaml no longer has node2"):
        check_hosts_still_valid(plan, less, fleet.connections)
    keep(inventory, fleet, {"node1": 20_000.0})
    with pytest.raises(PlanStale, match="measured again"):
        check_hosts_still_valid(plan, inventory, fleet.connections)
    file.write_text("name: b\n")
    with pytest.raises(PlanStale, match=r"job\.yaml has changed"):
        check_hosts_still_valid(plan, inventory, fleet.connections)


def test_the_command_shows_hosts_and_links_and_writes_mpi_files(inventory_file: str, tmp_path: Path, capsys) -> None:
    words = ["plan", "--env", "CartPole-v1", "--algo", "ppo", "-i", inventory_file, "--shape", "L1A2"]
    files = ["-o", str(tmp_path / "plan.json"), "--hostfile", str(tmp_path / "h"), "--rankfile", str(tmp_path / "r")]
    assert main([*words, "--oversubscribe", *files]) == 0
    out = capsys.readouterr().out
    assert "node1 (head)" in out
    assert "node2 → node1" in out
    assert "fragments of" in out
    plan = Plan.model_validate_json((tmp_path / "plan.json").read_bytes())
    assert plan.origin.inventory_file == inventory_file
    hosts = {host.name for host in plan.hosts}
    assert {line.split()[0] for line in (tmp_path / "h").read_text().splitlines() if line[0] != "#"} == hosts
    ranks = [line for line in (tmp_path / "r").read_text().splitlines() if line.startswith("rank")]
    assert {line.split("=")[1].split()[0] for line in ranks} == hosts
    assert "not known" not in (tmp_path / "r").read_text()


def test_a_host_that_does_not_answer_ends_the_plan_and_only_its_own_part_of_a_profile(tmp_path: Path, capsys) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text(
        "all: {hosts: {here: {ansible_connection: local}, gone: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n"
    )
    words = ["--env", "CartPole-v1", "--algo", "ppo", "-i", str(file)]
    assert main(["plan", *words, "--shape", "L1A1"]) == Unreachable.exit_code
    assert "error: gone: connect: 127.0.0.1 port 1 refuses connections" in capsys.readouterr().err
    assert main(["profile", "-i", str(file), "--json"]) == Unreachable.exit_code
    document = json.loads(capsys.readouterr().out)
    assert [host["facts"]["name"] for host in document["data"]["hosts"]] == ["here"]
    assert document["errors"][0]["message"].startswith("gone: connect: ")


def test_measuring_happens_on_the_hosts_and_is_kept_for_each(
    ssh_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*words: Any, **more: Any) -> MeasureRequest:
        return measure_request(*words, **more).model_copy(update={"seconds": 0.05})

    measure_request = cluster_profile.measure_request
    monkeypatch.setattr(cluster_profile, "measure_request", short)
    host = ssh_server.host("cn01", workdir=str(tmp_path / "there"))
    told: list[str] = []
    with reach(host) as connection, LocalConnection("cn02") as broken:
        (node,) = look_at([host], {"cn01": connection})
        facts = node.facts.model_copy(update={"name": "cn02", "boot_id": "another"})
        other = replace(node, facts=facts, host=Host("cn02", "cn02", python="/nowhere/python", workdir=str(tmp_path)))
        both = {"cn01": connection, "cn02": broken}
        came = measure_all([node, other], both, JOB, CARTPOLE, progress=told.append)
        again = measure_all([node], both, JOB, CARTPOLE, progress=told.append)
    measured = came.profile.hosts[0].measured
    assert measured is not None
    assert measured.actors[0].steps_per_s.median > 1_000
    assert came.profile.hosts[1].measured is None
    assert "cn02: check: there is no /nowhere/python" in came.failed["cn02"].message
    assert again.known == ("cn01",)
    assert told.count("cn01: measuring") == 1
    assert list((tmp_path / "there").glob(".measure*")) == []
