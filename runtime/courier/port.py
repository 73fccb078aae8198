"""A mirror's way into its link, and what a mirror is to the link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from runtime.courier.protocol import Frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.courier.channel import Channel, Transfer
    from runtime.courier.protocol import Kind

HEAD_LANE, BODY_LANE = 0, 1
_LANES = 2
CONTROL_TAG = 0  #: mirrors count from 1, so no lane has it


@dataclass
class Traffic:
    """Bytes of slots and publications, since the link was joined. `_raw` is what they would be uncoded."""

    sent: int = 0
    sent_raw: int = 0
    received: int = 0
    received_raw: int = 0
    slots_sent: int = 0
    slots_received: int = 0
    boards_sent: int = 0
    boards_received: int = 0
    messages_sent: int = 0


class Port(Protocol):
    """What a mirror may do with its link."""

    traffic: Traffic

    def send(self, data: memoryview, lane: int) -> Transfer:
        """Begin to send to the mirror's other end."""

    def receive(self, into: memoryview, lane: int) -> Transfer:
        """Post a receive from the mirror's other end."""

    def say(self, kind: Kind, *values: int) -> None:
        """Put a control frame into the next control message."""


class Mirror(Protocol):
    """One end of a mirrored ring or board, for the time of one join."""

    def start(self, port: Port) -> None:
        """The link is up."""

    def hear(self, frame: Frame) -> None:
        """A control frame from the other end. ProtocolError for one that cannot be."""

    def poll(self) -> bool:
        """Move on whatever can be moved on; True if anything was."""

    @property
    def busy(self) -> bool:
        """Something is on its way, so that polling soon is worth while."""

    def waits(self) -> Sequence[int]:
        """Descriptors that become readable when the local side has something new."""


def tag(mirror: int, lane: int) -> int:
    """The message tag of a mirror's lane."""
    return mirror * _LANES + lane


def mirror_of(message_tag: int) -> int:
    """The mirror whose lane has this tag; 0 for the link's own messages."""
    return message_tag // _LANES


@dataclass
class ChannelPort:
    """The port of mirror number `mirror` (≥ 1) over a channel; frames collect in `outbox`."""

    mirror: int
    channel: Channel
    outbox: list[Frame]
    traffic: Traffic

    def send(self, data: memoryview, lane: int) -> Transfer:
        """See `Port`."""
        self.traffic.sent += len(data)
        self.traffic.messages_sent += 1
        return self.channel.send(data, tag(self.mirror, lane))

    def receive(self, into: memoryview, lane: int) -> Transfer:
        """See `Port`."""
        return self.channel.receive(into, tag(self.mirror, lane))

    def say(self, kind: Kind, *values: int) -> None:
        """See `Port`."""
        self.outbox.append(Frame(kind, self.mirror, values))
