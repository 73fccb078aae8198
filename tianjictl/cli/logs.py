"""`tianjictl logs`: what the components wrote, each line led by who wrote it in which of its lives."""

from __future__ import annotations

import re
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from runtime.contract.log_files import wants
from runtime.contract.plan import Plan
from tianjictl.cli import completion as complete
from tianjictl.cli.keys import keyboard
from tianjictl.cli.options import Json, OptionalRun, parse_seconds
from tianjictl.cli.output import emit_json, note, safe
from tianjictl.errors import Unreachable, UsageProblem
from tianjictl.runs.client import observe
from tianjictl.runs.logfiles import LogReader, Piece
from tianjictl.runs.registry import Run, find_run

if TYPE_CHECKING:
    from collections.abc import Callable

_STAMP = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?)(Z|[+-]\d\d:?\d\d)?")
_ALL = 1 << 62
_NOBODY = "-"  #: no component is called so
_LOOK_EVERY_S = 0.2


Host = Annotated[
    str | None,
    typer.Option("--host", metavar="HOST", help="Only what ran on this host.", autocompletion=complete.hosts_of_run),
]


def logs(
    run: OptionalRun = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as more is written, until the run ends.")
    ] = False,
    component: Annotated[
        list[str] | None,
        typer.Option(
            "--component",
            "-c",
            metavar="NAME",
            help="actor-3, or a role such as actor; may repeat.",
            autocompletion=complete.components,
        ),
    ] = None,
    host: Host = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only lines younger than this, as in 10m.")
    ] = None,
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", metavar="N", min=0, help="Only the newest N lines of each component.")
    ] = None,
    json: Json = False,
) -> None:
    """Print the logs of a run, component by component, across all attempts."""
    found = find_run(run)
    oldest = None if since is None else datetime.now(UTC) - timedelta(seconds=parse_seconds(since, "--since"))
    unheard: list[str] = []

    def lost(why: str) -> None:
        note(why)
        unheard.append(why)

    reader = _reader(found, component or [], host, lost)
    read = reader.more(lines, whole=follow)
    if not read and (component or host):
        if host is not None and unheard:
            raise Unreachable(unheard[0], hint=f"tianjictl status {found.run_id} says what was heard of it")
        sought = " or ".join(component or [str(host)])
        raise UsageProblem(f"{found.run_id} has no log of {sought}", hint=f"it has logs of {_known(found)}")
    shown = _newest(read, lines, oldest)
    if json:
        if follow:
            raise UsageProblem("logs --json answers one document, which --follow never ends")
        keys = ("component", "attempt", "line")
        emit_json("logs", {"run_id": found.run_id, "lines": [dict(zip(keys, entry, strict=True)) for entry in shown]})
        return
    for name, attempt, line in shown:
        _print(name, attempt, line)
    if follow:
        _follow(found, reader)
    elif not read:
        note(f"{found.run_id} has written no logs")
    elif not shown and oldest is None and lines != 0:
        silent = ", ".join(dict.fromkeys(piece.component for piece in read))
        note(f"nothing has been written by {silent}; what happened is told by: tianjictl events {found.run_id}")


def _reader(run: Run, names: list[str], host: str | None, lost: Callable[[str], None]) -> LogReader:
    """Reads what is meant: components by name or role, and what ran on a host."""
    if host is None:
        return LogReader(run, chosen=names, lost=lost)
    if run.nodes:
        known = [node.name for node in run.nodes]
        if host not in known:
            raise UsageProblem(f"{run.run_id} does not run on {host}", hint=f"--host {' or '.join(known)}")
        return LogReader(run, chosen=names, node=host, lost=lost)
    placed = _placed_on(run, host)
    return LogReader(run, chosen=[name for name in placed if wants(name, names)] or [_NOBODY], lost=lost)


def _placed_on(run: Run, host: str) -> list[str]:
    try:
        plan = Plan.model_validate_json(run.paths.plan.read_bytes())
    except (OSError, ValidationError) as error:
        raise UsageProblem(f"the plan of {run.run_id} cannot be read, so --host has no meaning") from error
    if host not in {known.name for known in plan.hosts}:
        raise UsageProblem(f"{run.run_id} does not run on {host}", hint=f"--host {plan.hosts[0].name}")
    return [placement.name for placement in plan.placements if placement.host == host]


def _newest(read: list[Piece], lines: int | None, oldest: datetime | None) -> list[tuple[str, int, str]]:
    """The lines to print: of each component the newest `lines`, none older than `oldest`."""
    by_component: dict[str, list[tuple[str, int, str]]] = {}
    for piece in read:
        fresh = _young(piece, oldest)
        by_component.setdefault(piece.component, []).extend((piece.component, piece.attempt, line) for line in fresh)
    limit = _ALL if lines is None else lines
    return [entry for entries in by_component.values() for entry in (entries[-limit:] if limit else [])]


def _young(piece: Piece, oldest: datetime | None) -> list[str]:
    """The lines from the first that is not too old; a line without a time of its own goes with the one before it."""
    lines = piece.lines
    if oldest is None:
        return lines
    if datetime.fromtimestamp(piece.changed, UTC) < oldest:
        return []
    for index, line in enumerate(lines):
        stamp = time_of(line)
        if stamp is not None and stamp >= oldest:
            return lines[index:]
    return [] if any(time_of(line) for line in lines) else lines


def time_of(line: str) -> datetime | None:
    """The time a line begins with, local if it names no zone (as logging writes it); none where it begins otherwise."""
    match = _STAMP.match(line.lstrip("["))
    if match is None:
        return None
    try:
        return datetime.fromisoformat(match[1] + (match[2] or "").replace("Z", "+00:00")).astimezone(UTC)
    except ValueError:
        return None


def _follow(run: Run, reader: LogReader) -> None:
    """Print what is appended, and new files, until the run has ended."""
    next_look = 0.0
    with keyboard() as keys:
        while True:
            # Asked before the last read, so that what is written just before the end is not missed.
            ended = time.monotonic() >= next_look and observe(run, timeout_s=1.0).ended
            next_look = max(next_look, time.monotonic() + 1.0) if time.monotonic() >= next_look else next_look
            for piece in reader.more():
                for line in piece.lines:
                    _print(piece.component, piece.attempt, line)
            sys.stdout.flush()
            if ended or keys.key(_LOOK_EVERY_S) == "q":
                return


def _print(component: str, attempt: int, line: str) -> None:
    sys.stdout.write(f"{component}.{attempt} | {safe(line)}\n")


def _known(run: Run) -> str:
    pieces = LogReader(run, lost=lambda _why: None).more(0)
    return ", ".join(dict.fromkeys(piece.component for piece in pieces)) or "none"
