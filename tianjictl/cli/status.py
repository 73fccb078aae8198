"""`tianjictl status`: one screen on a run, or the same as JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from runtime.contract.states import RunState
from tianjictl.cli.options import REFRESH_S, Ascii, Json, Mouse, OptionalRun, ReadOnly, Refresh
from tianjictl.cli.output import emit_json, out, print_parts
from tianjictl.cli.screen import screen
from tianjictl.cli.status_json import stale_warning, status_data
from tianjictl.errors import UsageProblem
from tianjictl.runs.client import Picture, observe
from tianjictl.runs.registry import find_run

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
    read_only: ReadOnly = False,
    refresh: Refresh = REFRESH_S,
    mouse: Mouse = False,
    ascii: Ascii = False,
    json: Json = False,
) -> int:
    """Show where a run stands and why, how fast it goes beside what was predicted, and what limits it.

    Numbers that are old, because the coordinator does not answer, are shown as old. --read-only, --refresh, --mouse and
    --ascii are those of tianjictl top, and go with --watch.
    """
    if not watch and (read_only or mouse or ascii or refresh != REFRESH_S):
        raise UsageProblem(
            "--read-only, --refresh, --mouse and --ascii go with --watch", hint="tianjictl status --watch"
        )
    found = find_run(run)
    if watch:
        from tianjictl.cli.watch import watch_run

        picture = watch_run(found, json=json, read_only=read_only, mouse=mouse, period_s=refresh, ascii_only=ascii)
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
