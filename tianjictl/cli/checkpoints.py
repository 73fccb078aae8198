"""`tianjictl checkpoint` writes one now; `tianjictl checkpoints` lists, verifies and prunes."""

from __future__ import annotations

from typing import Annotated

import typer

from tianjictl.cli import completion as complete
from tianjictl.cli.options import Json, OptionalRun, Yes, confirm, parse_seconds
from tianjictl.cli.output import emit_json, note, print_table, say
from tianjictl.cli.progress import Progress
from tianjictl.errors import CheckpointProblem, UsageProblem
from tianjictl.runs.checkpointing import write_checkpoint
from tianjictl.runs.checkpoints import CheckpointView, list_checkpoints, prune_checkpoints, verify_checkpoints
from tianjictl.runs.registry import Run, find_run
from tianjictl.runs.settings import plan_of
from tianjictl.runs.words import duration, size

_ACTIONS = ("list", "verify", "prune")


def checkpoint(
    run: OptionalRun = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long to wait for it.")] = "120s",
    json: Json = False,
) -> None:
    """Write a checkpoint now and wait until it is complete."""
    found = find_run(run)
    limit_s = parse_seconds(timeout, "--timeout")
    with Progress("asking for a checkpoint") as progress:
        made = write_checkpoint(found, limit_s, progress)
    data = {"run_id": found.run_id, "step": made.step, "path": made.path, "seconds": made.seconds}
    if json:
        emit_json("checkpoint", data)
    else:
        say(f"wrote checkpoint {made.step:,} of {found.run_id} in {duration(made.seconds)}: {made.path}")


def checkpoints(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="list|verify|prune RUN",
            help="What to do, and with which run.",
            autocompletion=complete.runs_and_actions,
        ),
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", min=1, help="prune: how many to keep; the job's number.")
    ] = None,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """List a run's checkpoints; `verify` compares every byte with its digest, `prune` removes all but the newest.

    verify ends with 11 where a checkpoint is damaged.
    """
    action, wanted = _split(words or [])
    found = find_run(wanted)
    if keep is not None and action != "prune":
        hint = f"tianjictl checkpoints prune {wanted or 'RUN'} --keep {keep}"
        raise UsageProblem(f"--keep goes with prune, not with {action}", hint=hint)
    if action == "prune":
        return _prune(found, keep, yes=yes, json=json)
    known = verify_checkpoints(found, note) if action == "verify" else list_checkpoints(found, note)
    damaged = [item for item in known if item.problems]
    warnings = [f"checkpoint {item.step}: {'; '.join(item.problems)}" for item in damaged]
    if json:
        listed = [item.model_dump() for item in known]
        emit_json("checkpoints", {"run_id": found.run_id, "action": action, "checkpoints": listed}, warnings=warnings)
    elif not known:
        note(f"{found.run_id} has no checkpoints")
    else:
        print_table(("step", "state", "written (UTC)", "shape", "size", "path"), map(_row, known), right=(0, 4))
        for text in warnings:
            say(text)
        if action == "verify":
            say(_verdict(found, len(known), len(damaged)))
    return CheckpointProblem.exit_code if damaged and action == "verify" else 0


def _verdict(run: Run, known: int, damaged: int) -> str:
    """What verifying has come to."""
    if not damaged:
        which = f"all {known} checkpoints" if known > 1 else "the checkpoint"
        return f"verified: every byte of {which} is as it was written"
    return f"{damaged} of {known} damaged; tianjictl resume {run.run_id} --from-checkpoint passes over them"


def _row(item: CheckpointView) -> tuple[object, ...]:
    state = "damaged" if item.problems else "verified" if item.verified else "complete"
    written = (item.created_at or "-").partition(".")[0].rstrip("Z").replace("T", " ")
    return (item.step, state, written, item.shape or "-", size(item.bytes), item.path)


def _split(words: list[str]) -> tuple[str, str | None]:
    """The action and the run, in whichever order they were given."""
    actions = [word for word in words if word in _ACTIONS]
    others = [word for word in words if word not in _ACTIONS]
    if len(actions) > 1 or len(others) > 1:
        raise UsageProblem(f"too many words: {' '.join(words)}", hint="tianjictl checkpoints verify RUN")
    return (actions[0] if actions else "list"), (others[0] if others else None)


def _prune(run: Run, keep: int | None, *, yes: bool, json: bool) -> int:
    kept = keep if keep is not None else plan_of(run).job.checkpoint.keep
    extra = len(list_checkpoints(run)) - kept
    if extra > 0:
        confirm(f"Remove {extra} checkpoints of {run.run_id}, keeping the newest {kept}?", yes=yes)
    removed = prune_checkpoints(run, kept)
    if json:
        emit_json("checkpoints", {"run_id": run.run_id, "action": "prune", "kept": kept, "removed": removed})
    else:
        say(f"removed {len(removed)} checkpoints of {run.run_id}; at most {kept} are kept")
    return 0
