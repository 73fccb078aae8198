"""What may be asked of a run's folder on another machine, all in one go, and what comes back.

Asked as `python -m runtime ask FOLDER QUESTION`; the answer is one JSON line. The program that answers must start
fast, so it makes these documents without this module.
"""

from __future__ import annotations

from typing import Any

from pydantic import Base64Bytes, Field

from runtime.contract.model import Document, View
from runtime.contract.operator import Reply
from runtime.contract.record import CompletionRecord
from runtime.contract.view import RunView


class LogQuestion(Document):
    """What was written to the logs since `ends` (offsets by file name); of other files the last `lines`."""

    ends: dict[str, int] = Field(default_factory=dict)
    lines: int | None = None
    chosen: tuple[str, ...] = ()  #: components or roles; empty: all
    whole: bool = True  #: leave a last line that is not finished for later


class RelayQuestion(Document):
    """Each part that is left out is not looked at."""

    request: dict[str, Any] | None = None  #: to the coordinator (`OperatorRequest`)
    timeout_s: float = 5.0  #: for the coordinator's answer
    status: bool = False  #: how it ended, and whether its agent lives; the stored view where the coordinator is silent
    logs: LogQuestion | None = None
    read: str | None = None  #: a file of the folder, from `offset`
    offset: int = 0
    changed: tuple[str, ...] = ()  #: files of the folder: when each was last written


class LogPieceView(View):
    """`runtime.contract.log_files.Piece` on its way."""

    component: str
    attempt: int
    name: str
    changed: float
    end: int
    lines: tuple[str, ...]


class RelayAnswer(View):
    """What was asked for. `problem` says why the coordinator did not answer."""

    now: float  #: seconds since the epoch, by that machine's clock
    reply: Reply | None = None
    problem: str | None = None
    completion: CompletionRecord | None = None
    view: RunView | None = None
    agent_pid: int | None = None
    logs: tuple[LogPieceView, ...] = ()
    content: Base64Bytes | None = None  #: of the file that was read; none: there is no such file
    end: int = 0  #: offset after it
    changed: dict[str, float] = Field(default_factory=dict)  #: seconds since the epoch; files that are not there: none
