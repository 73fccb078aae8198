"""What is printed, and how: one place that knows terminals, pipes, colour, encodings and the JSON envelope.

Foreign text (names, reasons, log lines) is printed as it is, never read as markup, and cannot steer the terminal:
control characters come out as visible escapes.
"""

from __future__ import annotations

import json
import math
import os
import sys
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tianjictl.runs.words import in_ascii, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import RenderableType
    from rich.live import Live

SCHEMA_VERSION = 1
_PIPE_WIDTH = 100_000  #: nothing is wrapped or cut where a program reads


def out() -> Console:
    """The console on standard output, for results."""
    return _console(sys.stdout)


def err() -> Console:
    """The console on standard error, for progress, warnings and errors."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    terminal = is_terminal(stream)
    # Rich itself heeds NO_COLOR, COLUMNS and TERM on a terminal.
    return Console(
        file=stream,
        force_terminal=terminal,
        width=None if terminal else _PIPE_WIDTH,
        color_system="auto" if terminal else None,
        markup=False,
        highlight=False,
        emoji=False,
        safe_box=True,
    )


def is_terminal(stream: TextIO) -> bool:
    """Whether a person is likely to be looking at `stream`; a dumb terminal counts as a pipe."""
    return stream.isatty() and os.environ.get("TERM", "") != "dumb"


def can_ask() -> bool:
    """Whether a question can be put to a person: both ends of the conversation are terminals."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ascii_only(stream: TextIO) -> bool:
    """Whether `stream` cannot print more than ASCII."""
    return (stream.encoding or "ascii").lower().replace("-", "").replace("_", "") not in ("utf8", "utf8sig", "utf16")


def safe(text: object, stream: TextIO | None = None) -> str:
    """`text` fit for `stream` (standard output if none): no control characters, ASCII where only that can be shown."""
    shown = visible(str(text))
    return in_ascii(shown) if ascii_only(stream or sys.stdout) else shown


def say(text: object = "", *, style: str = "") -> None:
    """One line of result on standard output."""
    out().print(Text(safe(text), style=style), soft_wrap=True)


def note(text: object = "", *, style: str = "") -> None:
    """One line of progress or advice on standard error; kept out of the way of what a program reads."""
    err().print(Text(safe(text, sys.stderr), style=style), soft_wrap=True)


def live_screen(console: Console) -> Live:
    """The terminal's other screen, redrawn whole; the streams stay what they are, so that they keep their encoding."""
    from rich.live import Live

    return Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)


def print_error(lines: Iterable[str]) -> None:
    """Print `error:`, `warning:` and `hint:` lines on standard error, their first word coloured."""
    styles = {"error": "bold red", "warning": "yellow", "hint": "cyan"}
    for line in lines:
        shown = Text(safe(line, sys.stderr))
        word = line.partition(":")[0]
        if word in styles:
            shown.stylize(styles[word], 0, len(word) + 1)
        err().print(shown, soft_wrap=True)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[int] = ()) -> Table:
    """A table without borders; `right` are the columns to align right. Cells may be Text for colour."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column, header in enumerate(headers):
        made.add_column(header, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(safe(cell)) for cell in row))
    return made


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[int] = ()) -> None:
    """Print a table on standard output."""
    print_parts([table(headers, rows, right=right)])


def print_parts(parts: Iterable[RenderableType]) -> None:
    """Print tables and texts on standard output, without trailing blanks where it is piped."""
    console = out()
    if is_terminal(sys.stdout):
        for part in parts:
            console.print(part)
        return
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    sys.stdout.writelines(line.rstrip() + "\n" for line in captured.get().splitlines())


def emit_json(
    command: str,
    data: object,
    *,
    warnings: Sequence[str] = (),
    errors: Sequence[Mapping[str, object]] = (),
) -> None:
    """Print the one JSON document of `command`: the envelope of schema version 1 around `data`.

    `data` may hold pydantic models, paths, enums and datetimes; a number that JSON cannot write becomes null.
    """
    sys.stdout.write(json.dumps(envelope(command, data, warnings=warnings, errors=errors), allow_nan=False) + "\n")
    sys.stdout.flush()


def envelope(
    command: str, data: object, *, warnings: Sequence[str] = (), errors: Sequence[Mapping[str, object]] = ()
) -> dict[str, Any]:
    """The document that `emit_json` prints."""
    return {
        "schema_version": SCHEMA_VERSION,
        "command": command,
        "generated_at": rfc3339(datetime.now(UTC)),
        "data": as_json(data),
        "warnings": list(warnings),
        "errors": [as_json(error) for error in errors],
    }


def as_json(value: object) -> Any:
    """`value` as JSON types."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Enum):
        return as_json(value.value)
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(item) for item in value]
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return as_json(dump())


def rfc3339(moment: datetime) -> str:
    """A moment in UTC to the millisecond, `2026-01-01T00:00:00.000Z`; a naive one is taken as UTC."""
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return known.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
