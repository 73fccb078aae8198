"""`status --watch`: the same screen, kept live. A viewer and nothing more: leaving it changes nothing."""

from __future__ import annotations

import json as json_module
import sys
from datetime import UTC, datetime

from rich.console import Group

from tianjictl.cli.keys import keyboard
from tianjictl.cli.output import envelope, is_terminal, live, note, out, say
from tianjictl.cli.screen import fitting, progress_line
from tianjictl.cli.status_json import stale_warning, status_data
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
    picture = observe(run)
    try:
        with keyboard() as keys, live(out(), screen=True) as shown:
            while True:
                clock = f"{datetime.now(UTC).astimezone():%H:%M:%S}  q leaves, training goes on"
                shown.update(Group(*fitting(picture, shown.console, clock)), refresh=True)
                if picture.ended or keys.key(_REFRESH_S) in ("q", "d", "\x1b"):
                    break
                picture = observe(run)
    except KeyboardInterrupt:
        pass  # one more way of leaving: nothing hangs on a viewer
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
