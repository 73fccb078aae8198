"""`tianjictl plan --against RUN`: what a living run would have to change, and the command that does it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from tianjictl.cli.output import note, say
from tianjictl.errors import TianjiError, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.contract.plan import Plan
    from tianjictl.planning.plan_difference import PlanDifference
    from tianjictl.runs.registry import Run


def living_run(wanted: str) -> Run:
    """The run of `--against`; UsageProblem where there is none or it is over."""
    from tianjictl.runs.client import observe
    from tianjictl.runs.registry import find_run

    found = find_run(wanted)
    picture = observe(found)
    if picture.ended:
        hint = f"tianjictl resume {found.run_id} --from-checkpoint goes on with it, --shape as planned"
        raise UsageProblem(f"{found.run_id} is over ({picture.view.state}: {picture.view.reason})", hint=hint)
    return found


def difference_from(run: Run, plan: Plan) -> PlanDifference:
    """From the plan by which the run works now, as its head has it, to `plan`."""
    from tianjictl.launching.cluster import present_plan
    from tianjictl.planning.plan_difference import difference

    return difference(present_plan(run), plan)


def show(found: PlanDifference, run: Run, job: Sequence[str], inventory: str | None) -> None:
    """The difference in lines, what it is worth, and what to type. `job`: the words that name the job."""
    from tianjictl.planning.difference_words import lines

    say()
    say(f"against {run.run_id}: {found.shape_before} → {found.shape_after}{_worth(found)}", style="bold")
    for line in lines(found):
        say(line, style={"+": "green", "~": "yellow", "-": "red"}.get(line[0], ""))
    if found.why:
        say(found.why)
    for command in _commands(found, run, job, inventory):
        say(f"  {command}")


def as_data(found: PlanDifference, run: Run, job: Sequence[str], inventory: str | None) -> dict[str, Any]:
    """The same for a program."""
    commands = _commands(found, run, job, inventory)
    return {"run_id": run.run_id, **found.model_dump(mode="json"), "commands": list(commands)}


def mention_living(plan: Plan, job: Sequence[str]) -> None:
    """One line where a run of the job's name is alive here. Silent where its plan cannot be had."""
    from tianjictl.planning.difference_words import counted
    from tianjictl.runs.registry import list_runs

    run = next((run for run in list_runs() if run.name == plan.job.name and run.alive()), None)
    if run is None:
        return
    try:
        found = difference_from(run, plan)
    except TianjiError:  # it may be just being started, or be of another version
        return
    again = shlex.join(("tianjictl", "plan", *job, "--against", run.run_id))
    what = f"differs from this plan: {counted(found)}; {again} shows it" if found.differs else "works by this plan"
    note(f"note: {run.run_id} is alive and {what}")


def _commands(found: PlanDifference, run: Run, job: Sequence[str], inventory: str | None) -> tuple[str, ...]:
    from tianjictl.planning.plan_difference import commands

    return commands(found, run.run_id, job, inventory)


def _worth(found: PlanDifference) -> str:
    before, after = found.samples_per_s_before, found.samples_per_s_after
    if not before or after is None:
        return ""
    return f", predicted {before:,.0f} → {after:,.0f} samples/s ({after / before - 1.0:+.0%})"
