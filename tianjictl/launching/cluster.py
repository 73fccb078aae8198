"""A node more for a run that lives: prepared first, with nothing started; then its agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.plan import Plan
from tianjictl.errors import TianjiError, UsageProblem
from tianjictl.launching.cluster_launch import deaf_to_ctrl_c, needed_at, note_nodes
from tianjictl.launching.cluster_plan import joining_host
from tianjictl.launching.fleet import Fleet, of_all
from tianjictl.launching.host_check import check_room, env_modules
from tianjictl.launching.nodes import Start, check_all, fleet_of, forget, record_of, stage_all, start_others, take_down
from tianjictl.runs.client import read_from
from tianjictl.runs.nodes import host_of
from tianjictl.runs.registry import Run, open_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.plan import HostPlan
    from tianjictl.hosts.types import Host, Inventory
    from tianjictl.launching.host_check import HostCheck


def add_node(
    run: Run, inventory: Inventory, host_name: str, progress: Callable[[str], None], *, dry_run: bool = False
) -> HostPlan:
    """Reach a host, check it, stage what it lacks and note it in the run's record; nothing is started there.

    The answer is what the coordinator must know of it (`ScaleRequest.add`). With `dry_run` nothing is staged or noted.
    UsageProblem where the inventory has no such host, Unreachable or DoctorFailed where it cannot be used.
    """
    host = inventory.find(host_name)
    if host is None:
        known = ", ".join(each.name for each in inventory.hosts)
        raise UsageProblem(f"{inventory.file or 'the inventory'} has no host {host_name}", hint=f"it has {known}")
    run = open_run(run.paths.root)
    if run.record is None or run.record.head is None:
        why = f"{run.run_id} runs on this machine alone: no other host can join it"
        raise UsageProblem(why, hint="launch with an inventory (-i) a run that is to grow beyond this machine")
    plan = present_plan(run)
    with Fleet({host.name: host}) as fleet:
        failures = fleet.reach(progress=progress)
        checks, unfit = check_all(fleet, fleet.connections, env_modules(plan.job.env.id), progress)
        if failures or unfit:
            raise of_all(failures | unfit)
        check = checks[host.name]
        may_learn = not host.roles or "learner" in host.roles
        check_room(host, check, needed_at(plan, may_learn))
        made = joining_host(host, fleet.connections[host.name], plan, [host_of(node) for node in run.nodes])
        if not dry_run:
            _note(run, host, check, fleet, progress)
    return made


def start_node(run: Run, host_name: str, progress: Callable[[str], None]) -> None:
    """Start the agent of a node that `add_node` has prepared, and wait until it has answered.

    TianjiError says why it did not; nothing of it is left on the host then.
    """
    from tianjictl.cli.main import installed_version

    run = open_run(run.paths.root)
    node = next((each for each in run.nodes if each.name == host_name), None)
    head = run.head
    if node is None or head is None or run.record is None:
        raise TianjiError(f"{host_name} is no node of {run.run_id}")
    with fleet_of([head, node]) as fleet:
        failures = fleet.reach(progress=lambda _line: None)
        if failures:
            raise of_all(failures)
        try:
            start = Start(run.run_id, run.attempt, installed_version(), {node.name: _network(run, node.name)}, {})
            start_others(fleet, head, [node], start, run.record.endpoint, progress)
        except BaseException as error:
            with deaf_to_ctrl_c():
                left = take_down(fleet, run.run_id, [node], progress, whole=False)
                for line in forget(fleet, run, [node]):
                    progress(line)
            if not isinstance(error, TianjiError):
                raise
            told = of_all({host_name: error})
            told.details = (*told.details, *left)
            raise told from error
    started = [each.model_copy(update={"started": True}) if each.name == host_name else each for each in run.nodes]
    note_nodes(run, started, head.name, run.record.endpoint)


def present_plan(run: Run) -> Plan:
    """The plan by which a run works now, as its head has it."""
    raw = read_from(run, run.paths.plan)
    try:
        return Plan.model_validate_json(raw or b"")
    except ValidationError as error:
        raise TianjiError(f"the plan of {run.run_id} cannot be read") from error


def _note(run: Run, host: Host, check: HostCheck, fleet: Fleet, progress: Callable[[str], None]) -> None:
    """Stage what the host lacks, and have the record know it."""
    assert run.record is not None
    assert run.record.head is not None
    node = record_of(host, check, run, head=False)
    stage_all(fleet, [node], {host.name: check}, progress)
    others = [each for each in run.nodes if each.name != host.name]
    note_nodes(run, [*others, node], run.record.head, run.record.endpoint)


def _network(run: Run, name: str) -> str | None:
    plan = present_plan(run)
    known = {host.name: host.network for host in plan.hosts}
    return known.get(name, plan.host(plan.head).network)
