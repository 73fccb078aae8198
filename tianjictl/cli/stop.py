"""`tianjictl stop`: graceful, then SIGTERM, then SIGKILL; by run id only; verified."""

from __future__ import annotations

from typing import Annotated

import typer

from tianjictl.cli.options import Json, OptionalRun, Yes, confirm, parse_seconds
from tianjictl.cli.output import emit_json, say
from tianjictl.cli.progress import Progress
from tianjictl.errors import Finding, TimedOut, Unreachable
from tianjictl.launching.stop_report import StopReport
from tianjictl.launching.stopping import stop_run
from tianjictl.runs.client import observe
from tianjictl.runs.processes import everything_of
from tianjictl.runs.registry import Run, find_run
from tianjictl.runs.settings import stop_grace_s
from tianjictl.runs.words import duration


def stop(
    run: OptionalRun = None,
    yes: Yes = False,
    checkpoint: Annotated[
        bool, typer.Option("--checkpoint/--no-checkpoint", help="Write a last checkpoint first.")
    ] = True,
    grace: Annotated[
        str | None, typer.Option("--grace", metavar="TIME", help="How long it may take when asked, as in 30s.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Do not ask the run: kill its processes.")] = False,
    json: Json = False,
) -> int:
    """Stop a run and make sure that nothing of it is left. Stopping a run that has ended is no error.

    It can be resumed afterwards. Only processes that carry the run's id are touched. Ends with 4 where a node of the
    run could not be looked at.
    """
    found = find_run(run)
    grace_s = stop_grace_s(found) if grace is None else parse_seconds(grace, "--grace")
    if everything_of(found) or (found.nodes and found.completion() is None):
        loss = " without a last checkpoint" if force or not checkpoint else ""
        confirm(f"Stop {found.run_id}{loss}?", yes=yes)
    with Progress("stopping") as progress:
        report = stop_run(found, checkpoint=checkpoint, grace_s=grace_s, force=force, progress=progress)
    return _tell(found, report, json=json)


def _tell(run: Run, report: StopReport, *, json: bool) -> int:
    if report.survivors:
        left = ", ".join(map(str, report.survivors))
        raise TimedOut(f"still running after SIGKILL: {left}", hint=f"tianjictl stop {run.run_id} --force")
    view = observe(run).view
    if report.unreachable:
        raise _not_everywhere(run, report)
    if json:
        data = {"run_id": run.run_id, "how": report.how, "seconds": report.seconds, "survivors": []}
        emit_json("stop", {**data, "state": view.state, "reason": view.reason})
    elif report.how == "already":
        say(f"{run.run_id} was not running ({view.state}: {view.reason})")
    else:
        last = view.checkpoints.last_step
        kept = f"; newest checkpoint: step {last:,}" if last is not None else ""
        say(f"stopped {run.run_id} in {duration(report.seconds)} ({report.how}); nothing is left{kept}")
    return 0


def _not_everywhere(run: Run, report: StopReport) -> Unreachable:
    """Some nodes could not be looked at: what runs there is not known."""
    hint = f"processes of {run.run_id} may be left there; when it answers again: tianjictl stop {run.run_id}"
    return Unreachable.listing([Finding(line, hint) for line in report.unreachable])
