"""What an agent and its forkserver say to each other over a socket pair. Descriptors travel beside the messages."""

from __future__ import annotations

import socket
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from runtime.contract.model import Document

_MAX_MESSAGE_BYTES = 1 << 16
_MAX_DESCRIPTORS = 200  # the kernel passes at most 253 in one message; as many names are well below 64 KiB


class Setup(Document):
    """The run to serve, whose plan lies in its folder.

    Its descriptors follow in `Descriptors` messages, the last of which has `more` false.
    """

    kind: Literal["setup"] = "setup"
    root: str
    node: str
    attempt: int  #: of the run
    resume_from: str | None = None


class Descriptors(Document):
    """Names for the descriptors that travel with this message.

    With `Setup`, `lifeline:r` and `lifeline:w` are among them; later they are what a new revision of the plan adds.
    """

    kind: Literal["descriptors"] = "descriptors"
    names: tuple[str, ...]
    more: bool


class Forget(Document):
    """Close descriptors that are named: nobody who is forked from now on has a use for them."""

    kind: Literal["forget"] = "forget"
    names: tuple[str, ...]


class CourierOrder(Document):
    """What a courier is told: where to take orders, where to write, and the environment that MPI needs."""

    socket: str
    log: str
    environment: dict[str, str]


class SpawnOrder(Document):
    """Fork a component of the plan, or a courier."""

    kind: Literal["spawn"] = "spawn"
    component: str
    attempt: int
    courier: CourierOrder | None = None


class Dismiss(Document):
    """The agent leaves in good order: whoever is left is seen out, and nobody takes its place."""

    kind: Literal["dismiss"] = "dismiss"


class Ready(Document):
    """Everything heavy is imported; forks are cheap from here."""

    kind: Literal["ready"] = "ready"


class Forked(Document):
    """A component's process exists."""

    kind: Literal["forked"] = "forked"
    component: str
    attempt: int
    pid: int


class ForkFailed(Document):
    """The machine refused a process."""

    kind: Literal["fork-failed"] = "fork-failed"
    component: str
    attempt: int
    reason: str


class Gone(Document):
    """A component's process is gone: exit code, or minus the signal."""

    kind: Literal["gone"] = "gone"
    component: str
    attempt: int
    pid: int
    status: int


Message = Setup | Descriptors | Forget | SpawnOrder | Dismiss | Ready | Forked | ForkFailed | Gone
_MESSAGE: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


def channel() -> tuple[socket.socket, socket.socket]:
    """A pair of ends that keep message borders."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)


def send(end: socket.socket, message: Message, descriptors: list[int] | None = None) -> None:
    """Send one message; OSError where the other side is gone."""
    socket.send_fds(end, [message.model_dump_json().encode()], descriptors or [])


def send_descriptors(end: socket.socket, names: list[str], descriptors: list[int]) -> None:
    """Send any number of descriptors, in as many messages as it takes."""
    for start in range(0, len(names), _MAX_DESCRIPTORS):
        stop = start + _MAX_DESCRIPTORS
        chunk = Descriptors(names=tuple(names[start:stop]), more=stop < len(names))
        send(end, chunk, descriptors[start:stop])


def send_forget(end: socket.socket, names: list[str]) -> None:
    """Name any number of descriptors to close, in as many messages as it takes."""
    for start in range(0, len(names), _MAX_DESCRIPTORS):
        send(end, Forget(names=tuple(names[start : start + _MAX_DESCRIPTORS])))


def receive(end: socket.socket) -> tuple[Message | None, list[int]]:
    """Wait for one message and the descriptors with it; None where the other side is gone."""
    try:
        data, descriptors, _, _ = socket.recv_fds(end, _MAX_MESSAGE_BYTES, _MAX_DESCRIPTORS)
    except ConnectionResetError:  # it died with a message of ours unread
        return None, []
    if not data:
        return None, []
    return _MESSAGE.validate_json(data), descriptors
