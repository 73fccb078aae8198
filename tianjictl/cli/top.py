"""`tianjictl top`: the terminal UI of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from tianjictl.cli.options import OptionalRun
from tianjictl.runs.registry import find_run


def top(
    run: OptionalRun = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only look: no checkpoint, scale or stop.")] = False,
    refresh: Annotated[
        float, typer.Option("--refresh", metavar="SECONDS", min=0.05, max=60.0, help="Time between two looks.")
    ] = 0.5,
    mouse: Annotated[bool, typer.Option("--mouse", help="Let the mouse work in the command palette.")] = False,
    ascii: Annotated[bool, typer.Option("--ascii", help="Draw with ASCII alone, whatever the locale says.")] = False,
) -> None:
    """Watch a run on one screen: return, rates beside the predicted ones, freshness, hosts, components, events.

    Keys are at the bottom, ? shows them all. Leaving it, in whichever way, does not touch the training. Without a
    terminal it prints a line every two seconds, as status --watch does.
    """
    from tianjictl.cli.watch import watch_run

    watch_run(find_run(run), read_only=read_only, mouse=mouse, period_s=refresh, ascii_only=ascii)
