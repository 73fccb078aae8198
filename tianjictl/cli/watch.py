"""`status --watch` and `top`: the terminal UI, or plain lines and JSON where no person looks on.

A viewer and nothing more: leaving it changes nothing.
"""

from __future__ import annotations

import json as json_module
import sys

from tianjictl.cli.keys import keyboard
from tianjictl.cli.options import REFRESH_S
from tianjictl.cli.output import envelope, is_terminal, note, say
from tianjictl.cli.screen import progress_line
from tianjictl.cli.status_json import stale_warning, status_data
from tianjictl.runs.client import Picture, observe
from tianjictl.runs.registry import Run

_LINE_EVERY_S = 2.0


def watch_run(
    run: Run,
    *,
    json: bool = False,
    read_only: bool = False,
    mouse: bool = False,
    period_s: float = REFRESH_S,
    ascii_only: bool = False,
) -> Picture:
    """Show the run until the viewer leaves, or, where no person looks on, until it ends; returns the last picture."""
    if json:
        return _stream(run)
    if not all(is_terminal(stream) for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return _lines(run)
    from tianjictl.tui.start import leaving_words, view_run

    picture = view_run(run, read_only=read_only, mouse=mouse, period_s=period_s, ascii_only=ascii_only)
    note(leaving_words(picture))
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
