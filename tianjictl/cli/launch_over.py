"""`tianjictl launch -i`: the same command over the hosts of an inventory."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from tianjictl.cli.launch_report import read_plan, report_up, show
from tianjictl.cli.main import installed_version
from tianjictl.cli.progress import Progress
from tianjictl.doctor.quick import examining
from tianjictl.errors import UsageProblem
from tianjictl.launching.cluster_launch import launch_over
from tianjictl.launching.cluster_plan import plan_for
from tianjictl.launching.fleet import Fleet, of_all
from tianjictl.launching.stale import check_hosts_still_valid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from runtime.contract.job import Job
    from runtime.contract.plan import Plan
    from tianjictl.cli.job_input import Wanted
    from tianjictl.hosts.types import Inventory
    from tianjictl.remote.base import Connection


def launch_over_hosts(
    hosts: Inventory, wanted: Wanted, *, name: str | None, detach: bool, dry_run: bool, json: bool
) -> int:
    """Launch over `hosts`; the same outcomes and exit codes as on one machine."""
    began = time.monotonic()
    job, make_plan = _planner(hosts, wanted)
    with Progress("reaching the hosts") as progress:
        planner = make_plan(progress.keep)
        if dry_run:
            plan = _plan_only(hosts, planner, progress.keep)
        else:
            run, plan = launch_over(
                hosts,
                job.env.id,
                planner,
                name=name or job.name,
                argv=sys.argv,
                version=installed_version(),
                progress=progress.keep,
            )
    if dry_run:
        return show(plan, name, json=json)
    return report_up(run, plan, time.monotonic() - began, command="launch", detach=detach, json=json)


def _planner(
    hosts: Inventory, wanted: Wanted
) -> tuple[Job, Callable[[Callable[[str], None]], Callable[[Mapping[str, Connection]], Plan]]]:
    """The job, and what makes a plan of it once the hosts are reached."""
    if wanted.is_plan:
        assert wanted.path is not None
        if wanted.env or wanted.algo or wanted.overrides or wanted.shape or wanted.oversubscribe or wanted.profile:
            raise UsageProblem(f"{wanted.path} is a finished plan: options that change the job do not go with it")
        saved = _saved(hosts, wanted.path)

        def check(progress: Callable[[str], None]) -> Callable[[Mapping[str, Connection]], Plan]:
            def checked(connections: Mapping[str, Connection]) -> Plan:
                check_hosts_still_valid(saved, hosts, connections, seen=examining(hosts.file, progress))
                return saved

            return checked

        return saved.job, check
    job = wanted.job()

    def make(progress: Callable[[str], None]) -> Callable[[Mapping[str, Connection]], Plan]:
        return lambda connections: plan_for(
            hosts,
            connections,
            job,
            shape=wanted.shape,
            oversubscribe=wanted.oversubscribe,
            profile_path=wanted.profile,
            progress=progress,
            seen=examining(hosts.file, progress),
        )

    return job, make


def _saved(hosts: Inventory, path: Path) -> Plan:
    """A saved plan, all of whose hosts the inventory has."""
    plan = read_plan(path)
    unknown = [host.name for host in plan.hosts if hosts.find(host.name) is None]
    if unknown:
        why = f"{path} is for hosts that {hosts.file or 'this machine'} does not have: {', '.join(unknown)}"
        raise UsageProblem(why, hint="name the inventory that the plan was made from: -i FILE")
    return plan


def _plan_only(
    hosts: Inventory, planner: Callable[[Mapping[str, Connection]], Plan], progress: Callable[[str], None]
) -> Plan:
    with Fleet({host.name: host for host in hosts.hosts}) as fleet:
        failures = fleet.reach(progress=progress)
        if failures:
            raise of_all(failures)
        return planner(fleet.connections)
