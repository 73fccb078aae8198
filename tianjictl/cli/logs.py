"""`tianjictl logs`: what the components wrote, each line led by who wrote it in which of its lives."""

from __future__ import annotations

import re
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from runtime.contract.plan import Plan
from tianjictl.cli.keys import keyboard
from tianjictl.cli.options import Json, OptionalRun, parse_seconds
from tianjictl.cli.output import emit_json, note, safe
from tianjictl.errors import UsageProblem
from tianjictl.runs.client import observe
from tianjictl.runs.logfiles import LogFile, Tail, log_files, tail
from tianjictl.runs.registry import Run, find_run

if TYPE_CHECKING:
    from collections.abc import Iterable

_STAMP = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?)(Z|[+-]\d\d:?\d\d)?")
_ALL = 1 << 62
_LOOK_EVERY_S = 0.2


def logs(
    run: OptionalRun = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as more is written, until the run ends.")
    ] = False,
    component: Annotated[
        list[str] | None,
        typer.Option("--component", "-c", metavar="NAME", help="actor-3, or a role such as actor; may repeat."),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Only what ran on this host.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only lines younger than this, as in 10m.")
    ] = None,
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", min=0, help="Only the newest N lines of each component.")
    ] = None,
    json: Json = False,
) -> None:
    """Print the logs of a run, component by component, across all attempts."""
    found = find_run(run)
    wanted = _Filter(found, component or [], host)
    oldest = None if since is None else datetime.now(UTC) - timedelta(seconds=parse_seconds(since, "--since"))
    files = wanted.of(log_files(found.paths))
    if not files and (component or host):
        sought = " or ".join(component or [str(host)])
        raise UsageProblem(f"{found.run_id} has no log of {sought}", hint=f"it has logs of {_known(found)}")
    ends = {file: tail(file.path, _ALL if lines is None else lines, whole=follow) for file in files}
    shown = _newest(ends, lines, oldest)
    if json:
        if follow:
            raise UsageProblem("logs --json answers one document, which --follow never ends")
        keys = ("component", "attempt", "line")
        emit_json("logs", {"run_id": found.run_id, "lines": [dict(zip(keys, entry, strict=True)) for entry in shown]})
        return
    for name, attempt, line in shown:
        _print(name, attempt, line)
    if follow:
        _follow(found, wanted, {file.path: read.end for file, read in ends.items()})
    elif not files:
        note(f"{found.run_id} has written no logs")


class _Filter:
    """Which components are meant: by name or role, and by host."""

    def __init__(self, run: Run, names: list[str], host: str | None) -> None:
        self._names = set(names)
        self._on_host = None if host is None else _placed_on(run, host)

    def of(self, files: Iterable[LogFile]) -> list[LogFile]:
        return [file for file in files if self._wants(file.component)]

    def _wants(self, component: str) -> bool:
        if self._on_host is not None and component not in self._on_host:
            return False
        return not self._names or component in self._names or component.rpartition("-")[0] in self._names


def _placed_on(run: Run, host: str) -> set[str]:
    try:
        plan = Plan.model_validate_json(run.paths.plan.read_bytes())
    except (OSError, ValidationError) as error:
        raise UsageProblem(f"the plan of {run.run_id} cannot be read, so --host has no meaning") from error
    if host not in {known.name for known in plan.hosts}:
        raise UsageProblem(f"{run.run_id} does not run on {host}", hint=f"--host {plan.hosts[0].name}")
    return {placement.name for placement in plan.placements if placement.host == host}


def _newest(read: dict[LogFile, Tail], lines: int | None, oldest: datetime | None) -> list[tuple[str, int, str]]:
    """The lines to print: of each component the newest `lines`, none older than `oldest`."""
    by_component: dict[str, list[tuple[str, int, str]]] = {}
    for file, end in read.items():
        fresh = _young(end.lines, file, oldest)
        by_component.setdefault(file.component, []).extend((file.component, file.attempt, line) for line in fresh)
    limit = _ALL if lines is None else lines
    return [entry for entries in by_component.values() for entry in (entries[-limit:] if limit else [])]


def _young(lines: list[str], file: LogFile, oldest: datetime | None) -> list[str]:
    """The lines from the first that is not too old; a line without a time of its own goes with the one before it."""
    if oldest is None:
        return lines
    if datetime.fromtimestamp(file.path.stat().st_mtime, UTC) < oldest:
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


def _follow(run: Run, wanted: _Filter, read: dict[object, int]) -> None:
    """Print what is appended, and new files, until the run has ended."""
    partial: dict[object, bytes] = {}
    next_look = 0.0
    with keyboard() as keys:
        while True:
            # Asked before the last read, so that what is written just before the end is not missed.
            ended = time.monotonic() >= next_look and observe(run, timeout_s=1.0).ended
            next_look = max(next_look, time.monotonic() + 1.0) if time.monotonic() >= next_look else next_look
            for file in wanted.of(log_files(run.paths)):
                with file.path.open("rb") as opened:
                    opened.seek(read.get(file.path, 0))
                    data = partial.pop(file.path, b"") + opened.read()
                    read[file.path] = opened.tell()
                *complete, rest = data.split(b"\n")
                partial[file.path] = rest
                for line in complete:
                    _print(file.component, file.attempt, line.decode(errors="replace"))
            sys.stdout.flush()
            if ended or keys.key(_LOOK_EVERY_S) == "q":
                return


def _print(component: str, attempt: int, line: str) -> None:
    sys.stdout.write(f"{component}.{attempt} | {safe(line)}\n")


def _known(run: Run) -> str:
    return ", ".join(dict.fromkeys(file.component for file in log_files(run.paths))) or "none"
