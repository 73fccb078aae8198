"""`tianjictl launch`: plan, start, wait until every component has reported, then follow the training."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tianjictl.cli.inventory_input import chosen_hosts
from tianjictl.cli.job_input import Wanted
from tianjictl.cli.launch_report import read_plan, report_up, show
from tianjictl.cli.options import Algo, Detach, Env, Inventory, Json, Oversubscribe, Profile, Set, Shape
from tianjictl.cli.output import note
from tianjictl.cli.progress import Progress
from tianjictl.errors import UsageProblem
from tianjictl.launching.agent import AgentProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.plan import Plan
    from tianjictl.profiling.facts.host import HostFacts

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}")


def launch(
    job: Annotated[Path | None, typer.Argument(metavar="JOB|PLAN", help="Job file (YAML) or plan file (JSON).")] = None,
    inventory: Inventory = None,
    detach: Detach = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Changes nothing: a launch never asks. For scripts that always pass it.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be started; touch nothing.")] = False,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the run; the job's name if left out.")
    ] = None,
    env: Env = None,
    algo: Algo = None,
    set_: Set = None,
    shape: Shape = None,
    oversubscribe: Oversubscribe = False,
    profile: Profile = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Run everything in one thread of one process, for debugging.")
    ] = False,
    json: Json = False,
) -> int:
    """Start a training on this machine, or over the hosts of an inventory, and follow it; -d returns once it is up.

    Ends with 0 only if the training completed (or, with -d, came up). While attached, d detaches and Ctrl-C pressed
    twice stops it.
    """
    del yes
    if name is not None and not _NAME.fullmatch(name):
        raise UsageProblem(f"--name {name!r}: use letters, digits, dot, dash and underscore, at most 63 of them")

    wanted = Wanted(job, env, algo, tuple(set_ or ()), shape, oversubscribe, Path(profile) if profile else None)
    hosts = chosen_hosts(inventory)
    if hosts is not None:
        if in_process:
            why = f"--in-process runs in one process of this machine: the hosts of {hosts.file} do not go with it"
            raise UsageProblem(why, hint="an inventory comes from -i, TIANJICTL_INVENTORY or inventory/hosts.yaml")
        from tianjictl.cli.launch_over import launch_over_hosts

        return launch_over_hosts(hosts, wanted, name=name, detach=detach, dry_run=dry_run, json=json)
    if not dry_run and not in_process:
        return _launch_here(wanted, name, detach=detach, json=json)
    warnings: list[str] = []
    with Progress() as progress:
        plan = _plan(wanted, progress, warnings.append)
    for line in warnings:
        note(line)
    if dry_run:
        return show(plan, name, json=json)
    from tianjictl.cli.in_process import run_in_process

    return run_in_process(plan, name or plan.job.name, json=json)


def _launch_here(wanted: Wanted, name: str | None, *, detach: bool, json: bool) -> int:
    began = time.monotonic()
    agent = AgentProcess.start()  # it loads its libraries while the plan is made
    handed_over = False
    try:
        with Progress() as progress:
            warnings: list[str] = []
            plan = _plan(wanted, progress, warnings.append)
            from tianjictl.cli.main import installed_version
            from tianjictl.launching.folder import new_run
            from tianjictl.launching.start import bring_up

            with new_run(plan, name=name or plan.job.name, argv=sys.argv, version=installed_version()) as run:
                for line in warnings:
                    progress.keep(line)
                progress(f"starting {run.run_id} as {plan.shape}")
                handed_over = True
                bring_up(run, agent, progress=progress)
    except BaseException:
        if not handed_over:
            agent.abandon()
        raise
    agent.release()
    return report_up(run, plan, time.monotonic() - began, command="launch", detach=detach, json=json)


def _plan(wanted: Wanted, progress: Progress, warn: Callable[[str], None]) -> Plan:
    """The plan for this machine; `warn` hears what will slow it, to be said once the launch goes ahead."""
    from tianjictl.doctor.quick import examining_here

    seen = examining_here(warn)
    if wanted.path is not None and wanted.is_plan:
        if wanted.changes_the_job:
            raise UsageProblem(f"{wanted.path} is a finished plan: options that change the job do not go with it")
        return _saved_plan(wanted.path, seen)
    from tianjictl.launching.local_plan import plan_for_this_machine

    over = wanted.oversubscribe
    return plan_for_this_machine(
        wanted.job(),
        shape=wanted.shape,
        oversubscribe=over,
        profile_path=wanted.profile,
        progress=progress,
        seen=seen,
    )


def _saved_plan(path: Path, seen: Callable[[HostFacts], None]) -> Plan:
    """The plan in a file; PlanStale where what it was made from has changed since."""
    from tianjictl.launching.stale import check_still_valid
    from tianjictl.launching.trackers import refuse_missing_trackers

    plan = read_plan(path)
    check_still_valid(plan, seen)
    refuse_missing_trackers(plan.job)
    return plan
