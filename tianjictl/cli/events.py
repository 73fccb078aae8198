"""`tianjictl events`: what happened to a run, and which event led to which."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from tianjictl.cli.keys import keyboard
from tianjictl.cli.options import Json, OptionalRun
from tianjictl.cli.output import emit_json, note, safe
from tianjictl.runs.client import observe
from tianjictl.runs.event_log import EventLog
from tianjictl.runs.registry import find_run

if TYPE_CHECKING:
    from runtime.contract.view import Event

_LOOK_EVERY_S = 0.2


def events(
    run: OptionalRun = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    json: Json = False,
) -> None:
    """Print the event log of a run, oldest first; `<-` names the event that led to this one.

    With -f what is new comes when the coordinator has heard of it. With -f --json each event is a JSON line of its own,
    as the log never ends while the run lives.
    """
    found = find_run(run)
    log = EventLog(found)
    if not follow:
        read = list(log.more())
        if json:
            warnings = [f"{log.unreadable} lines of the event log make no sense"] if log.unreadable else []
            emit_json("events", {"run_id": found.run_id, "events": read}, warnings=warnings)
        elif not read:
            note(f"{found.run_id} has no events yet")
        else:
            sys.stdout.writelines(f"{event_line(event)}\n" for event in read)
        return
    next_look = 0.0
    with keyboard() as keys:
        while True:
            ended = False
            if time.monotonic() >= next_look:
                ended = observe(found, timeout_s=1.0).ended
                next_look = time.monotonic() + 1.0
            for event in log.more():
                sys.stdout.write((event.model_dump_json() if json else event_line(event)) + "\n")
            sys.stdout.flush()
            if ended or keys.key(_LOOK_EVERY_S) == "q":
                return


def event_line(event: Event) -> str:
    """One event for people."""
    cause = f"  <- {event.cause}" if event.cause else ""
    return safe(f"{event.time.astimezone():%Y-%m-%d %H:%M:%S}  {event.id:<12} {event.kind:<24} {event.message}{cause}")
