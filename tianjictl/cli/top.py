"""`tianjictl top`: the terminal UI of a run."""

from __future__ import annotations

from tianjictl.cli.options import REFRESH_S, Ascii, Mouse, OptionalRun, ReadOnly, Refresh
from tianjictl.runs.registry import find_run


def top(
    run: OptionalRun = None,
    read_only: ReadOnly = False,
    refresh: Refresh = REFRESH_S,
    mouse: Mouse = False,
    ascii: Ascii = False,
) -> None:
    """Watch a run on one screen: return, rates beside the predicted ones, freshness, hosts, components, events.

    Keys are at the bottom, ? shows them all. Leaving it, in whichever way, does not touch the training. Without a
    terminal it prints a line every two seconds, as status --watch does.
    """
    from tianjictl.cli.watch import watch_run

    watch_run(find_run(run), read_only=read_only, mouse=mouse, period_s=refresh, ascii_only=ascii)
