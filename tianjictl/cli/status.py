"""`tianjictl status`: one screen on a run, or the same as JSON."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from runtime.contract.states import RunState
from tianjictl.cli.options import Json, OptionalRun
from tianjictl.cli.output import emit_json, out, print_parts
from tianjictl.cli.screen import screen
from tianjictl.runs.client import Picture, observe
from tianjictl.runs.registry import find_run

NEWEST_EVENTS = 20
_EXIT_CODES = {
    RunState.FAILED: 6,
    RunState.LOST: 6,
    RunState.DEGRADED: 7,
    RunState.STOPPED: 1,
}


def status(
    run: OptionalRun = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep the screen live; q leaves.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="0 running or completed, 6 failed or lost, 7 degraded, 1 stopped.")
    ] = False,
    json: Json = False,
) -> int:
    """Show where a run stands and why, how fast it goes beside what was predicted, and what limits it.

    Numbers that are old, because the coordinator does not answer, are shown as old.
    """
    found = find_run(run)
    if watch:
        from tianjictl.cli.watch import watch_run

        picture = watch_run(found, json=json)
    else:
        picture = observe(found)
        if json:
            emit_json("status", status_data(picture), warnings=stale_warning(picture))
        else:
            print_parts(screen(picture, width=out().width))
    return verdict(picture) if exit_code else 0


def verdict(picture: Picture) -> int:
    """The exit code that tells the run's state; a run that nobody answers for counts as degraded."""
    if picture.stale:
        return 7
    return _EXIT_CODES.get(picture.view.state, 0)


def stale_warning(picture: Picture) -> list[str]:
    """The warning that belongs to old numbers."""
    if not picture.stale:
        return []
    return [f"these numbers are {picture.age_s:.0f} s old: {picture.problem or 'the coordinator does not answer'}"]


def status_data(picture: Picture) -> dict[str, Any]:
    """`data` of `status --json`: the view, with the keys that scripts rely on."""
    view = picture.view.model_dump(mode="json")
    view["links"] = [{"from": link.pop("source"), "to": link.pop("target"), **link} for link in view["links"]]
    view["events"] = view["events"][-NEWEST_EVENTS:]
    older = 0.0 if picture.live else picture.age_s
    for aged in (*view["components"], *view["hosts"]):
        if aged["heartbeat_age_s"] is not None:
            aged["heartbeat_age_s"] += older
    if view["checkpoints"]["last_age_s"] is not None:
        view["checkpoints"]["last_age_s"] += older
    return {**view, "stale": picture.stale, "age_s": picture.age_s}
