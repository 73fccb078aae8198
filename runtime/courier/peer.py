"""A peer: another node's courier, what is mirrored with it, and the link to it while there is one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.courier.board_mirror import BoardReceiver, BoardSender
from runtime.courier.gathered import Gathered
from runtime.courier.orders import LinkView, MirrorBoard, MirrorRing
from runtime.courier.ring_mirror import RingReceiver, RingSender, packing_of
from runtime.memory.board import BoardSpec
from runtime.memory.eventfd import EventFd
from runtime.memory.layout import Layout
from runtime.memory.mirrored import MirrorBoardReader, MirrorBoardWriter, MirrorConsumer, MirrorProducer
from runtime.memory.ring import RingSpec
from runtime.memory.segment import Segment

if TYPE_CHECKING:
    from runtime.courier.link import Link
    from runtime.courier.port import Mirror

RATE_S = 1.0  #: span over which bytes per second are counted


class Mirrored:
    """The local memory of one mirror. It outlives links: each join makes a fresh end over it."""

    def __init__(self, order: MirrorRing | MirrorBoard, fds: Sequence[int]) -> None:
        self._order = order
        self._segment = Segment.attach(fds[0], order.name)
        self._events = [EventFd(fd) for fd in fds[1:]]

    def end(self) -> Mirror:
        """A fresh end. ValueError if the segment holds something else."""
        order, segment, events = self._order, self._segment, self._events
        layout = Layout.from_json(order.layout)
        if isinstance(order, MirrorRing):
            spec = RingSpec(order.name, layout, order.slots)
            packing = packing_of(spec, wan=order.wan)
            data, space = events
            if order.end == "send":
                space = Gathered(space.fileno())
                return RingSender(MirrorConsumer(segment, spec, data_ready=data, space_ready=space), packing, space)
            data = Gathered(data.fileno())
            return RingReceiver(MirrorProducer(segment, spec, data_ready=data, space_ready=space), packing, data)
        board = BoardSpec(order.name, layout, order.slots)
        if order.end == "send":
            return BoardSender(MirrorBoardReader(segment, board), order.codec, events[0] if events else None)
        return BoardReceiver(MirrorBoardWriter(segment, board, readers=events), order.codec)

    def close(self) -> None:
        """Give descriptors and memory back."""
        self._segment.close()
        for event in self._events:
            event.close()


@dataclass
class _Mark:
    at: float
    sent: int
    received: int


class Peer:
    """State of one peer over all its joins."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.link: Link | None = None
        self.reason = "not joined yet"
        self._joined = 0
        self._mirrored: dict[int, Mirrored] = {}
        self._mark = _Mark(0.0, 0, 0)
        self._rates = (0.0, 0.0)

    def mirror(self, number: int, mirrored: Mirrored) -> None:
        """Mirror this memory from now on, over this link and those to come."""
        if number in self._mirrored:
            raise ValueError(f"mirror number {number} is taken")
        end = mirrored.end()  # also tells whether the segment is what the order says
        self._mirrored[number] = mirrored
        if self.link is not None:
            self.link.add(number, end)

    def remove(self, number: int) -> None:
        """Mirror it no more. StuckTransferError if a receive into its memory cannot be ended."""
        if self.link is not None:
            self.link.remove(number)
        mirrored = self._mirrored.pop(number, None)
        if mirrored is not None:
            mirrored.close()

    def joined(self, link: Link, now: float) -> None:
        """A link is there: everything goes on from what the memory says."""
        self.link, self.reason = link, ""
        self._joined += 1
        self._mark, self._rates = _Mark(now, 0, 0), (0.0, 0.0)
        for number, mirrored in self._mirrored.items():
            link.add(number, mirrored.end())

    def drop(self, reason: str) -> None:
        """Give the link up, whatever its state. StuckTransferError if a receive cannot be ended."""
        link, self.link, self.reason = self.link, None, reason
        if link is not None:
            link.close()

    def forget(self) -> None:
        """Give back the memory of every mirror."""
        for mirrored in self._mirrored.values():
            mirrored.close()
        self._mirrored.clear()

    def count(self, now: float) -> None:
        """Once in RATE_S or so: what moved since the last time, per second."""
        span = now - self._mark.at
        if self.link is None or span < RATE_S:
            return
        traffic = self.link.traffic
        self._rates = ((traffic.sent - self._mark.sent) / span, (traffic.received - self._mark.received) / span)
        self._mark = _Mark(now, traffic.sent, traffic.received)

    def view(self) -> LinkView:
        """For people."""
        if self.link is None:
            return LinkView(peer=self.name, up=False, reason=self.reason, joined=self._joined)
        traffic = self.link.traffic
        return LinkView(
            peer=self.name,
            up=self.link.proven,
            joined=self._joined,
            sent=traffic.sent,
            sent_raw=traffic.sent_raw,
            received=traffic.received,
            received_raw=traffic.received_raw,
            sent_per_s=self._rates[0],
            received_per_s=self._rates[1],
            slots_sent=traffic.slots_sent,
            slots_received=traffic.slots_received,
            boards_sent=traffic.boards_sent,
            boards_received=traffic.boards_received,
            mirrors=len(self._mirrored),
        )


def close_all(fds: Sequence[int]) -> None:
    """Descriptors that came with an order which was refused."""
    for fd in fds:
        os.close(fd)
