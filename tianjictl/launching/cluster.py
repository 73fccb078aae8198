"""More nodes for a run that lives: prepared first, with nothing started; then their agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.plan import Plan
from tianjictl.errors import Finding, TianjiError, UsageProblem
from tianjictl.launching.cluster_launch import deaf_to_ctrl_c, needed_at, note_nodes
from tianjictl.launching.cluster_plan import joining_host
from tianjictl.launching.fleet import Fleet, of_all
from tianjictl.launching.host_check import check_room, env_modules
from tianjictl.launching.nodes import Start, check_all, fleet_of, forget, record_of, stage_all, start_others, take_down
from tianjictl.runs.client import read_from
from tianjictl.runs.nodes import host_of
from tianjictl.runs.registry import Run, open_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runtime.contract.plan import HostPlan
    from tianjictl.hosts.types import Host, Inventory
    from tianjictl.launching.host_check import HostCheck


def add_nodes(
    run: Run,
    inventory: Inventory,
    names: Sequence[str],
    progress: Callable[[str], None],
    *,
    dry_run: bool = False,
) -> tuple[HostPlan, ...]:
    """Reach hosts, check them, stage what they lack and note them in the run's record; nothing is started there.

    The answer is what the coordinator must know of them (`ScaleRequest.add`). `dry_run` stages and notes nothing.
    UsageProblem where the inventory has no such host or its machine has a node already, Unreachable or DoctorFailed
    where one cannot be used.
    """
    hosts = {name: _found(inventory, name) for name in names}
    run = open_run(run.paths.root)
    if run.record is None or run.record.head is None:
        why = f"{run.run_id} runs on this machine alone: no other host can join it"
        raise UsageProblem(why, hint="launch with an inventory (-i) a run that is to grow beyond this machine")
    plan = present_plan(run)
    with Fleet(hosts) as fleet:
        failures = fleet.reach(progress=progress)
        checks, unfit = check_all(fleet, fleet.connections, env_modules(plan.job.env.id), progress)
        if failures or unfit:
            raise of_all(failures | unfit)
        refuse_second_names(hosts, checks, run)
        made: list[HostPlan] = []
        for host in hosts.values():
            check_room(host, checks[host.name], needed_at(plan, not host.roles or "learner" in host.roles))
            known = plan.model_copy(update={"hosts": (*plan.hosts, *made)})
            made.append(joining_host(host, fleet.connections[host.name], known, [host_of(node) for node in run.nodes]))
        if not dry_run:
            _note(run, hosts, checks, fleet, progress)
    return tuple(made)


def refuse_second_names(hosts: Mapping[str, Host], checks: Mapping[str, HostCheck], run: Run) -> None:
    """UsageProblem where a host that joins is the machine of a node, or of another that joins, by another name.

    Nodes of this machine are as many as one likes.
    """
    taken = {node.machine: (node.name, host_of(node).connection) for node in run.nodes if node.name not in hosts}
    findings = []
    for host in hosts.values():
        machine = checks[host.name].machine
        name, way = taken.setdefault(machine, (host.name, host.connection))
        if machine and name != host.name and not way == host.connection == "local":
            why = f"{host.name} and {name} are one machine, and {name} takes part in {run.run_id}"
            findings.append(Finding(why, f"add another host; tianjictl scale {run.run_id} SHAPE uses {name} for more"))
    if findings:
        raise UsageProblem.listing(findings)


def _found(inventory: Inventory, name: str) -> Host:
    host = inventory.find(name)
    if host is None:
        known = ", ".join(each.name for each in inventory.hosts)
        raise UsageProblem(f"{inventory.file or 'the inventory'} has no host {name}", hint=f"it has {known}")
    return host


def start_nodes(run: Run, names: Sequence[str], progress: Callable[[str], None]) -> None:
    """Start the agents of nodes that `add_nodes` has prepared, all at once, and wait until they have answered.

    TianjiError says which did not, and why; nothing of any of them is left on the hosts then.
    """
    from tianjictl.cli.main import installed_version

    run = open_run(run.paths.root)
    nodes = [each for each in run.nodes if each.name in names]
    head = run.head
    if len(nodes) < len(set(names)) or head is None or run.record is None:
        missing = sorted(set(names) - {node.name for node in nodes})
        raise TianjiError(f"{', '.join(missing) or ', '.join(names)}: no node of {run.run_id}")
    networks = _networks(run, names)
    with fleet_of([head, *nodes]) as fleet:
        failures = fleet.reach(progress=lambda _line: None)
        if failures:
            raise of_all(failures)
        try:
            start = Start(run.run_id, run.attempt, installed_version(), networks, {})
            start_others(fleet, head, nodes, start, run.record.endpoint, progress)
        except BaseException as error:
            with deaf_to_ctrl_c():
                left = take_down(fleet, run.run_id, nodes, progress, whole=False)
                for line in forget(fleet, run, nodes):
                    progress(line)
            if isinstance(error, TianjiError):
                error.details = (*error.details, *left)
            raise
    started = [each.model_copy(update={"started": True}) if each in nodes else each for each in run.nodes]
    note_nodes(run, started, head.name, run.record.endpoint)


def present_plan(run: Run) -> Plan:
    """The plan by which a run works now, as its head has it."""
    raw = read_from(run, run.paths.plan)
    try:
        return Plan.model_validate_json(raw or b"")
    except ValidationError as error:
        raise TianjiError(f"the plan of {run.run_id} cannot be read") from error


def _note(
    run: Run, hosts: Mapping[str, Host], checks: Mapping[str, HostCheck], fleet: Fleet, progress: Callable[[str], None]
) -> None:
    """Stage what the hosts lack, and have the record know them."""
    assert run.record is not None
    assert run.record.head is not None
    nodes = [record_of(host, checks[name], run, head=False) for name, host in hosts.items()]
    stage_all(fleet, nodes, dict(checks), progress)
    others = [each for each in run.nodes if each.name not in hosts]
    note_nodes(run, [*others, *nodes], run.record.head, run.record.endpoint)


def _networks(run: Run, names: Sequence[str]) -> dict[str, str | None]:
    plan = present_plan(run)
    known = {host.name: host.network for host in plan.hosts}
    return {name: known.get(name, plan.host(plan.head).network) for name in names}
