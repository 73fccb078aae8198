"""What an operator may ask of a running coordinator: one JSON line each way over the run's Unix socket."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from runtime.contract.model import Document, View
from runtime.contract.plan import HostPlan

if TYPE_CHECKING:
    from collections.abc import Iterator


class ViewRequest(Document):
    """Answered with the newest RunView in `data`."""

    op: Literal["view"] = "view"


class CheckpointRequest(Document):
    """Write a checkpoint now; answered at once with `{"step": N}`, the folder appears when it is complete."""

    op: Literal["checkpoint"] = "checkpoint"


class StopRequest(Document):
    """Checkpoint (unless told not to), drain, exit."""

    op: Literal["stop"] = "stop"
    checkpoint: bool = True
    reason: str = "asked by the operator"


class ScaleRequest(Document):
    """Another shape, on the same or on more nodes; answered with a `Difference` in `data`.

    Hosts of `add` take part from then on; their agents are the operator's to start. With `dry_run` nothing changes.
    """

    op: Literal["scale"] = "scale"
    shape: str | None = None  #: none: the shape stays
    add: tuple[HostPlan, ...] = ()
    remove: tuple[str, ...] = ()  #: nodes that are to be left
    dry_run: bool = False


class Difference(View):
    """What a change of the plan does. Names of components are given as `actor-8 on tj3`."""

    revision: int  #: of the plan after the change
    shape_before: str
    shape_after: str
    starts: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    stays: int = 0
    hosts_added: tuple[str, ...] = ()
    hosts_left: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


OperatorRequest = ViewRequest | CheckpointRequest | StopRequest | ScaleRequest
Request = Annotated[OperatorRequest, Field(discriminator="op")]
REQUEST: TypeAdapter[OperatorRequest] = TypeAdapter(Request)


class Reply(View):
    """`ok` with `data`, or an `error` for the operator to read, with what to do about it in `hint`."""

    ok: bool
    data: Any = None
    error: str | None = None
    hint: str | None = None
    infeasible: bool = False  #: refused because the nodes have no room for it, or the job does not allow it
    mistaken: bool = False  #: refused because it makes no sense of this run


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """A name for `path` that fits a Unix socket address (108 bytes), however deep the folder lies."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def connect(path: Path, timeout_s: float) -> socket.socket:
    """A connection to the socket at `path`, on which nothing waits longer than that; OSError where nobody answers."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout_s)
    try:
        with short_path(path) as name:
            connection.connect(name)
    except OSError:
        connection.close()
        raise
    return connection


def ask(path: Path, request: Document, *, timeout_s: float = 5.0) -> Reply:
    """Send one request to the socket at `path` and wait for the reply; OSError where nobody answers in time."""
    with connect(path, timeout_s) as connection:
        connection.sendall(request.model_dump_json().encode() + b"\n")
        with connection.makefile("rb") as lines:
            line = lines.readline()
    if not line:
        raise ConnectionResetError("the coordinator closed the connection without an answer")
    return Reply.model_validate_json(line)
