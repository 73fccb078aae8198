"""`tianjictl eval`: plays a saved policy and reports its returns."""

from __future__ import annotations

import json as json_module
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tianjictl.cli import completion as complete
from tianjictl.cli.options import Json
from tianjictl.cli.output import emit_json, note, say
from tianjictl.cli.progress import Progress
from tianjictl.errors import CheckpointProblem, TianjiError
from tianjictl.runs.checkpoints import checkpoint_at, newest_at_head
from tianjictl.runs.registry import find_run
from tianjictl.runs.tool import runtime_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tianjictl.runs.access import Place


def evaluate(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN|CHECKPOINT", help="A run (its newest checkpoint) or a folder.", autocompletion=complete.runs
        ),
    ] = None,
    episodes: Annotated[int, typer.Option("--episodes", metavar="N", min=1, help="How many to play.")] = 20,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of the environments.")] = 0,
    json: Json = False,
) -> None:
    """Play a saved policy greedily: mean, standard deviation, least and greatest return over N episodes."""
    with Progress("looking for the checkpoint") as progress:
        folder, place = _folder(target, progress.keep)
        question = {"checkpoint": str(folder), "episodes": episodes, "seed": seed}
        where = "" if place is None else f" on {place.node.name}"
        progress(f"playing {episodes} episodes with {folder.name}{where}")
        words = ["eval", json_module.dumps(question)]
        answer = runtime_tool(words) if place is None else runtime_tool(words, place=place)
    missing = {"episodes", "seed", "version", "return"} - set(answer)
    if missing:
        raise TianjiError(f"the evaluation's answer lacks {', '.join(sorted(missing))}")
    if json:
        emit_json("eval", {**answer, "checkpoint": folder})
        return
    found = answer["return"]
    say(
        f"{answer['episodes']} episodes with version {answer['version']}: mean {found['mean']:.2f}, "
        f"std {found['std']:.2f}, min {found['min']:.2f}, max {found['max']:.2f}"
    )
    note(f"checkpoint {folder}, seed {answer['seed']}")


def _folder(target: str | None, skipped: Callable[[str], None]) -> tuple[Path, Place | None]:
    """The checkpoint folder: given itself, or the newest undamaged one of a run; and where, if not on this machine."""
    if target is not None and ("/" in target or Path(target).is_dir()):
        with _own_hint("name another checkpoint, or a run: of that the newest undamaged one is played"):
            return Path(checkpoint_at(target).path), None
    run = find_run(target)
    with _own_hint(f"tianjictl checkpoint {run.run_id} writes one while it runs; tianjictl runs lists other runs"):
        path, place = newest_at_head(run, skipped)
        return Path(path), place


@contextmanager
def _own_hint(hint: str) -> Iterator[None]:
    """What helps somebody who wants to see a policy play, and not to go on with the run."""
    try:
        yield
    except CheckpointProblem as problem:
        raise CheckpointProblem(problem.message, hint=hint) from problem
