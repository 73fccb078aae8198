"""`tianjictl runs`: the history of runs, newest first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from tianjictl.cli.options import Json
from tianjictl.cli.output import emit_json, note, print_table
from tianjictl.cli.screen import STATE_STYLE
from tianjictl.remote.fanout import Err, fan_out
from tianjictl.runs.access import head_place
from tianjictl.runs.client import Picture, blank_view, judge, observe, stored_view
from tianjictl.runs.registry import Run, list_runs
from tianjictl.runs.words import duration, number

if TYPE_CHECKING:
    from collections.abc import Sequence

_ANSWER_WITHIN_S = 1.0


def runs(
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", metavar="N", min=1, help="Only the newest N runs.")
    ] = None,
    json: Json = False,
) -> None:
    """List runs with their state and its reason, age, return and steps."""
    known = list_runs()[:lines]
    seen = _pictures(known)
    if json:
        emit_json("runs", {"runs": [_data(run, picture) for run, picture in seen]})
    elif not seen:
        note("there are no runs yet; start one with: tianjictl launch JOB")
    else:
        now = datetime.now(UTC)
        headers = ("run", "state", "age", "ran", "return", "env steps", "shape", "attempt", "reason")
        print_table(headers, [_row(run, picture, now) for run, picture in seen], right=(2, 3, 4, 5, 7))


def _pictures(known: Sequence[Run]) -> list[tuple[Run, Picture]]:
    """How each run stands; those whose head is another machine are asked all at once."""
    elsewhere = {run.run_id: run for run in known if run.completion() is None and head_place(run) is not None}
    heard = fan_out(elsewhere, lambda run: observe(run, timeout_s=_ANSWER_WITHIN_S)) if elsewhere else {}

    def picture(run: Run) -> Picture:
        came = heard.get(run.run_id)
        if isinstance(came, Err):  # it took too long, even for a host that does not answer
            return judge(
                stored_view(run) or blank_view(run), None, alive=True, now=datetime.now(UTC), problem=str(came.error)
            )
        return came.value if came is not None else observe(run, timeout_s=_ANSWER_WITHIN_S)

    return [(run, picture(run)) for run in known]


def _row(run: Run, picture: Picture, now: datetime) -> Sequence[object]:
    view = picture.view
    reward = view.reward.mean_100 if view.reward.mean_100 is not None else view.reward.mean
    return (
        run.run_id,
        Text(view.state, style=STATE_STYLE.get(view.state, "")),
        duration(max(0.0, (now - run.created_at).total_seconds())),
        duration(view.elapsed_s),
        number(reward),
        f"{view.progress.env_steps:,}",
        view.shape.wanted,
        run.attempt,
        view.reason,
    )


def _data(run: Run, picture: Picture) -> dict[str, object]:
    view = picture.view
    return {
        "run_id": run.run_id,
        "name": run.name,
        "state": view.state,
        "reason": view.reason,
        "created_at": run.created_at,
        "elapsed_s": view.elapsed_s,
        "attempt": run.attempt,
        "shape": view.shape.wanted,
        "progress": view.progress.model_dump(),
        "reward": view.reward.model_dump(exclude={"history"}),
        "stale": picture.stale,
        "folder": run.paths.root,
    }
