"""What every way of launching says: what would be started, and what has been; and how a saved plan is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.cli.output import emit_json, note, say
from tianjictl.errors import UsageProblem

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.contract.plan import Plan
    from tianjictl.runs.registry import Run


def report_up(run: Run, plan: Plan, seconds: float, *, command: str, detach: bool, json: bool) -> int:
    """Say that the run is up, then follow it unless told to detach."""
    note(f"started {run.run_id}: {len(plan.placements)} components as {plan.shape} in {seconds:.1f} s")
    if not detach:
        from tianjictl.cli.attach import follow

        return follow(run, command=command, json=json)
    if json:
        data = {"run_id": run.run_id, "name": run.name, "attempt": run.attempt, "folder": run.paths.root}
        emit_json(command, {**data, "shape": plan.shape, "seconds": seconds})
    else:
        say(run.run_id)
        note(f"follow it: tianjictl attach {run.run_id}; stop it: tianjictl stop {run.run_id}")
    return 0


def read_plan(path: Path) -> Plan:
    """The plan in a file; UsageProblem where there is none."""
    from pydantic import ValidationError

    from runtime.contract.plan import Plan

    try:
        return Plan.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror or error}", hint="tianjictl plan JOB -o plan.json") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        why = f"{where}: {first['msg']}" if where else first["msg"]
        raise UsageProblem(f"{path} is not a plan: {why}", hint="tianjictl plan JOB -o plan.json") from error


def show(plan: Plan, name: str | None, *, json: bool) -> int:
    """What would be started, without starting it."""
    from tianjictl.cli.output import print_table
    from tianjictl.launching.folder import bytes_needed
    from tianjictl.runs.words import cores

    if json:
        data = {"plan": plan.model_dump(mode="json"), "name": name or plan.job.name, "bytes_needed": bytes_needed(plan)}
        emit_json("launch", {**data, "dry_run": True})
        return 0
    say(f"would start {name or plan.job.name} as {plan.shape}; nothing was touched")
    rows = [(p.name, p.host, cores(p.cores), p.threads) for p in plan.placements]
    print_table(("component", "host", "cores", "threads"), rows, right=(3,))
    say(f"at most {bytes_needed(plan) / 2**20:.0f} MiB on disk")
    for line in (*plan.predicted.explanation, *plan.notes):
        say(line)
    return 0
