"""`tianjictl resume`: a new attempt of a run, from one of its checkpoints, on the same or another shape."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from runtime.contract.states import RunState
from tianjictl.cli import completion as complete
from tianjictl.cli.inventory_input import chosen_hosts
from tianjictl.cli.job_input import check_shape
from tianjictl.cli.launch_report import report_up
from tianjictl.cli.options import Detach, Inventory, Json, OptionalRun, Oversubscribe, Shape, Yes, confirm
from tianjictl.cli.progress import Progress
from tianjictl.errors import CheckpointProblem, Locked, UsageProblem
from tianjictl.launching.agent import AgentProcess
from tianjictl.launching.folder import begin_attempt, check_room
from tianjictl.launching.start import bring_up
from tianjictl.runs.checkpoints import LATEST, CheckpointView, choose_checkpoint
from tianjictl.runs.client import observe
from tianjictl.runs.processes import everything_of, wait_gone
from tianjictl.runs.registry import Run, find_run, folder_lock
from tianjictl.runs.settings import plan_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.plan import Plan
    from tianjictl.hosts.types import Inventory as Hosts

_FLAG = "--from-checkpoint"
_LEAVE_WITHIN_S = 5.0  #: a run that has noted its end needs a moment to let go of everything


class ResumeCommand(TyperCommand):
    """Lets the value of --from-checkpoint be left out: it is `latest` then."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        filled = []
        for index, word in enumerate(args):
            bare = word == _FLAG and (index + 1 == len(args) or args[index + 1].startswith("-"))
            filled.append(f"{_FLAG}={LATEST}" if bare else word)
        return super().parse_args(ctx, filled)


COMMAND_CLASS = ResumeCommand  #: where the command line looks for it


def resume(
    run: OptionalRun = None,
    from_checkpoint: Annotated[
        str | None,
        typer.Option(
            _FLAG,
            metavar="[latest|STEP|PATH]",
            help="Which checkpoint; latest if the value is left out.",
            autocompletion=complete.checkpoints,
        ),
    ] = None,
    shape: Shape = None,
    inventory: Inventory = None,
    head: Annotated[
        str | None,
        typer.Option(
            "--head", metavar="H", help="The host that runs the coordinator from now on.", autocompletion=complete.heads
        ),
    ] = None,
    oversubscribe: Oversubscribe = False,
    yes: Yes = False,
    detach: Detach = False,
    json: Json = False,
) -> int:
    """Continue a run from a checkpoint: counters, schedules, optimiser and replay go on where they were.

    The newest undamaged checkpoint is taken; damaged ones are passed over and named. Nothing starts from scratch.
    Of a run over hosts it is the newest on any of them; hosts that cannot be reached are left out and named.
    """
    if from_checkpoint is None:
        raise UsageProblem("resume continues from a checkpoint: say which", hint=f"tianjictl resume RUN {_FLAG} latest")
    found = find_run(run)
    hosts = chosen_hosts(inventory) if inventory is not None else None
    if hosts is not None or found.nodes:
        return _resume_over(found, hosts, from_checkpoint, shape, oversubscribe, head, yes, detach, json)
    if head is not None:
        raise UsageProblem(f"--head: {found.run_id} runs on this machine alone", hint="name hosts: -i INVENTORY")
    _refuse_if_alive(found)
    _ask_if_completed(found, yes=yes)
    began = time.monotonic()
    agent = AgentProcess.start()
    handed_over = False
    try:
        with folder_lock(found.paths.root, what=found.run_id), Progress("looking for the checkpoint") as progress:
            _refuse_if_alive(found, locked=True)
            chosen = choose_checkpoint(found, from_checkpoint, progress.keep)
            plan = _plan(found, chosen, shape, oversubscribe, progress)
            check_room(plan, found.paths.root)
            again = _next_attempt(found, plan, chosen)
            where = f"from step {chosen.step:,} as {plan.shape}, attempt {again.attempt}"
            progress.keep(f"continuing {again.run_id} {where}")
            handed_over = True
            _bring_up(again, agent, chosen, progress)
    except BaseException:
        if not handed_over:
            agent.abandon()
        raise
    agent.release()
    return report_up(again, plan, time.monotonic() - began, command="resume", detach=detach, json=json)


def _resume_over(
    found: Run,
    hosts: Hosts | None,
    wanted: str,
    shape: str | None,
    oversubscribe: bool,
    head: str | None,
    yes: bool,
    detach: bool,
    json: bool,
) -> int:
    """The same over hosts: those of the inventory, else those that the run had."""
    from tianjictl.cli.main import installed_version
    from tianjictl.launching.cluster_resume import Resume

    if found.record is None:
        raise CheckpointProblem(f"{found.paths.record} is missing or unreadable: the attempt cannot be counted")
    check_shape(shape)
    _ask_if_completed(found, yes=yes)
    began = time.monotonic()
    with Progress("reaching the hosts") as progress:
        resuming = Resume(found, hosts, shape=shape, oversubscribe=oversubscribe, head=head, progress=progress.keep)
        run, plan, _ = resuming.go(wanted, argv=sys.argv, version=installed_version())
    return report_up(run, plan, time.monotonic() - began, command="resume", detach=detach, json=json)


def _bring_up(run: Run, agent: AgentProcess, chosen: CheckpointView, progress: Callable[[str], None]) -> None:
    bring_up(run, agent, resume_from=Path(chosen.path), progress=progress)


def _next_attempt(run: Run, plan: Plan, chosen: CheckpointView) -> Run:
    from tianjictl.cli.main import installed_version

    if run.record is None:
        raise CheckpointProblem(f"{run.paths.record} is missing or unreadable: the attempt cannot be counted")
    return begin_attempt(run, plan, resumed_from=Path(chosen.path), argv=sys.argv, version=installed_version())


def _plan(
    run: Run, chosen: CheckpointView, shape: str | None, oversubscribe: bool, progress: Callable[[str], None]
) -> Plan:
    """The run's own plan, or a new one of its job where another shape is asked for."""
    old = plan_of(run)
    wanted = shape or old.shape
    check_shape(wanted)
    if wanted == old.shape and not oversubscribe:
        return old
    from tianjictl.launching.local_plan import plan_for_this_machine

    if chosen.shape and chosen.shape != wanted:
        progress(f"the checkpoint was written as {chosen.shape}; planning {wanted}")
    return plan_for_this_machine(old.job, shape=wanted, oversubscribe=oversubscribe, progress=progress)


def _refuse_if_alive(run: Run, *, locked: bool = False) -> None:
    if run.completion() is not None:
        wait_gone(run, time.monotonic() + _LEAVE_WITHIN_S)
    if run.agent_pid() is not None or (not locked and run.being_started()):
        raise Locked(f"{run.run_id} is alive", hint=f"tianjictl attach {run.run_id}, or tianjictl stop {run.run_id}")
    left = everything_of(run)
    if left:
        pids = ", ".join(str(process.pid) for process in left)
        raise Locked(
            f"processes of {run.run_id} are still there ({pids}); an orphaned run needs a moment to leave",
            hint=f"tianjictl stop {run.run_id} --force --yes",
        )


def _ask_if_completed(run: Run, *, yes: bool) -> None:
    view = observe(run).view
    if view.state is RunState.COMPLETED:
        confirm(f"{run.run_id} has completed ({view.reason}). Resume it all the same?", yes=yes)
