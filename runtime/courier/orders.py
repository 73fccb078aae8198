"""What an agent tells its courier, and what it hears: one JSON message each way over a Unix socket (SEQPACKET).

Descriptors travel with the message that needs them. Every order is answered by one `Answer`; a `Lost` may come at any
time. The end of the socket tells the courier to leave.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from runtime.courier.codec import BoardCodec

MESSAGE_BYTES = 64 * 1024


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Start(_Message):
    """First order. Descriptors: the segment with the stats block, the control segment."""

    order: Literal["start"] = "start"
    block: int = 0  #: index of the courier's stats block in its segment
    attempt: int = 0
    key: str  #: of the run, hexadecimal


class OpenPort(_Message):
    """Answered with the address in `value`."""

    order: Literal["port"] = "port"


class Join(_Message):
    """Accept the peer's connection, or connect to `port`. What was mirrored with that peer before goes on."""

    order: Literal["join"] = "join"
    peer: str
    port: str | None = None  #: None to accept
    timeout_s: int = 2


class MirrorRing(_Message):
    """Descriptors: the segment, the data-ready and the space-ready eventfd."""

    order: Literal["ring"] = "ring"
    peer: str
    number: int = Field(ge=1)  #: the same on both nodes, never used again
    end: Literal["send", "receive"]
    name: str
    layout: str
    slots: int
    wan: bool = False


class MirrorBoard(_Message):
    """Descriptors: the segment; of a sender the eventfd of publications, of a receiver those of its readers."""

    order: Literal["board"] = "board"
    peer: str
    number: int = Field(ge=1)
    end: Literal["send", "receive"]
    name: str
    layout: str
    slots: int
    codec: BoardCodec = BoardCodec.PLAIN


class Remove(_Message):
    """Mirror that number no more."""

    order: Literal["remove"] = "remove"
    peer: str
    number: int


class Drop(_Message):
    """Give up the link to a peer; with `forget` also what was mirrored over it."""

    order: Literal["drop"] = "drop"
    peer: str
    forget: bool = False


class Ask(_Message):
    """Answered with a `CourierView` as JSON in `value`."""

    order: Literal["ask"] = "ask"


class Stop(_Message):
    """Leave in good order."""

    order: Literal["stop"] = "stop"


Order = Annotated[
    Start | OpenPort | Join | MirrorRing | MirrorBoard | Remove | Drop | Ask | Stop, Field(discriminator="order")
]
ORDERS: TypeAdapter[Order] = TypeAdapter(Order)


class Answer(_Message):
    """To the oldest unanswered order. `error` says in words what went wrong, None if nothing did."""

    event: Literal["answer"] = "answer"
    error: str | None = None
    value: str = ""


class Lost(_Message):
    """A link broke; both sides have to be told to join again."""

    event: Literal["lost"] = "lost"
    peer: str
    reason: str


EVENTS: TypeAdapter[Answer | Lost] = TypeAdapter(Annotated[Answer | Lost, Field(discriminator="event")])


class LinkView(_Message):
    """One link as seen from here. Bytes since it was joined; `_raw`: what they would be uncoded."""

    peer: str
    up: bool
    reason: str = ""
    joined: int = 0  #: how often
    sent: int = 0
    sent_raw: int = 0
    received: int = 0
    received_raw: int = 0
    sent_per_s: float = 0.0
    received_per_s: float = 0.0
    slots_sent: int = 0
    slots_received: int = 0
    boards_sent: int = 0
    boards_received: int = 0
    mirrors: int = 0


class CourierView(_Message):
    """All about a courier."""

    library: str
    transport: str
    why: str
    links: list[LinkView] = []
