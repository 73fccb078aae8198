"""`status --watch`: the same screen, kept live. A viewer and nothing more: leaving it changes nothing."""

from __future__ import annotations

import json as json_module
import sys
from datetime import UTC, datetime

from rich.console import Group
from rich.live import Live

from tianjictl.cli.keys import keyboard
from tianjictl.cli.output import envelope, is_terminal, note, out, say
from tianjictl.cli.screen import progress_line, screen
from tianjictl.cli.status import stale_warning, status_data
from tianjictl.runs.client import Picture, observe
from tianjictl.runs.registry import Run

_REFRESH_S = 0.5
_LINE_EVERY_S = 2.0


def watch_run(run: Run, *, json: bool) -> Picture:
    """Show the run until it ends or the viewer leaves; returns the last picture shown."""
    if json:
        return _stream(run)
    if not is_terminal(sys.stdout):
        return _lines(run)
    with keyboard() as keys, Live(console=out(), screen=True, auto_refresh=False) as live:
        while True:
            picture = observe(run)
            clock = f"{datetime.now(UTC).astimezone():%H:%M:%S}  q leaves, training goes on"
            live.update(Group(*screen(picture), "", clock), refresh=True)
            if picture.ended or keys.key(_REFRESH_S) in ("q", "d", "\x1b"):
                break
    note("training goes on" if not picture.ended else f"{picture.view.state}: {picture.view.reason}")
    return picture


def _lines(run: Run) -> Picture:
    """One plain line every two seconds, for pipes and dumb terminals."""
    with keyboard() as keys:
        while True:
            picture = observe(run)
            say(progress_line(picture.view) + (f" STALE {picture.age_s:.0f} s" if picture.stale else ""))
            sys.stdout.flush()
            if picture.ended or keys.key(_LINE_EVERY_S) == "q":
                return picture


def _stream(run: Run) -> Picture:
    """One JSON document a line, every two seconds until the run ends."""
    with keyboard() as keys:
        while True:
            picture = observe(run)
            document = envelope("status", status_data(picture), warnings=stale_warning(picture))
            sys.stdout.write(json_module.dumps(document, allow_nan=False) + "\n")
            sys.stdout.flush()
            if picture.ended or keys.key(_LINE_EVERY_S) == "q":
                return picture
