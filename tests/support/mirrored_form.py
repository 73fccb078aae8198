"""A form of ring and board whose two ends are on different nodes, for the contract suite: two memories and a link.

After every call of an end the link is polled until nothing moves, so that the suite, which asks at once, sees what a
patient caller would see. Whenever an end is killed, the link breaks too and is joined again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.courier.board_mirror import BoardReceiver, BoardSender
from runtime.courier.codec import BoardCodec
from runtime.courier.ring_mirror import Packing, RingReceiver, RingSender
from runtime.memory.board import Board, BoardSpec
from runtime.memory.eventfd import EventFd
from runtime.memory.mirrored import MirrorBoardReader, MirrorBoardWriter, MirrorConsumer, MirrorProducer
from runtime.memory.ring import Ledger, Ring, RingSpec, read_ledger
from runtime.memory.segment import Segment
from support.mirroring import Ends, TwoLinks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.memory.layout import Layout


class Settled:
    """An end; the link is settled before and after each call."""

    def __init__(self, end: Any, settle: Callable[[], None]) -> None:
        self._end, self._settle = end, settle

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._end, name)

        def call(*arguments: Any) -> Any:
            self._settle()
            try:
                return method(*arguments)
            finally:
                self._settle()

        return call


class MirroredForm:
    """Makes rings and boards over links that pack and code in one way."""

    def __init__(
        self, layout: Layout, ends: Mapping[str, Any], packing: Packing, codec: BoardCodec = BoardCodec.PLAIN
    ) -> None:
        self.layout, self.ends, self.packing, self.codec = layout, ends, packing, codec
        self.events = [EventFd.create() for _ in range(4)]

    def ring(self, slots: int) -> MirroredRing:
        return MirroredRing(self, slots)

    def board(self, slots: int) -> MirroredBoard:
        return MirroredBoard(self, slots)

    def close(self) -> None:
        for event in self.events:
            event.close()


class MirroredRing:
    """The producer's ring is `segment`, the consumer's one slot larger, so that a full one here can be whole there."""

    def __init__(self, form: MirroredForm, slots: int) -> None:
        self._form = form
        self.spec, self._far = RingSpec("near", form.layout, slots), RingSpec("far", form.layout, slots + 1)
        self.segment, self._far_segment = Segment.anonymous(self.spec.nbytes), Segment.anonymous(self._far.nbytes)
        Ring.format(self.segment, self.spec)
        Ring.format(self._far_segment, self._far)
        near_data, self.space_ready, self.data_ready, far_space = form.events
        self._near_events, self._far_events = [near_data, self.space_ready], [self.data_ready, far_space]
        self.links = TwoLinks(self._mirrors)
        self.replace_producer(first=True)
        self.replace_consumer(first=True)

    def _mirrors(self) -> dict[int, Ends]:
        near = dict(zip(("data_ready", "space_ready"), self._near_events, strict=True))
        far = dict(zip(("data_ready", "space_ready"), self._far_events, strict=True))
        sender = RingSender(MirrorConsumer(self.segment, self.spec, **near), self._form.packing)
        return {1: (sender, RingReceiver(MirrorProducer(self._far_segment, self._far, **far), self._form.packing))}

    def replace_producer(self, *, first: bool = False) -> None:
        if not first:
            self.links.join()
        end = self._form.ends["producer"](self.segment, self.spec, self._near_events)
        self.producer: Any = Settled(end, self.links.settle)

    def replace_consumer(self, *, first: bool = False) -> None:
        if not first:
            self.links.join()
        end = self._form.ends["consumer"](self._far_segment, self._far, self._far_events)
        self.consumer: Any = Settled(end, self.links.settle)

    def ledger(self) -> Ledger:
        self.links.settle()
        return read_ledger(self.segment, self.spec)

    def far_ledger(self) -> Ledger:
        self.links.settle()
        return read_ledger(self._far_segment, self._far)


class MirroredBoard:
    """The writer's board is `segment`; the reader's has the same number of slots."""

    def __init__(self, form: MirroredForm, slots: int) -> None:
        self._form = form
        self.spec = BoardSpec("board", form.layout, slots)
        self.segment, self._far_segment = (Segment.anonymous(self.spec.nbytes) for _ in range(2))
        for segment in (self.segment, self._far_segment):
            Board.format(segment, self.spec)
        self.signals = form.events[:2]
        self.links = TwoLinks(self._mirrors)
        self.replace_writer(first=True)
        self.reader: Any = Settled(form.ends["reader"](self._far_segment, self.spec, []), self.links.settle)

    def _mirrors(self) -> dict[int, Ends]:
        sender = BoardSender(MirrorBoardReader(self.segment, self.spec), self._form.codec)
        writer = MirrorBoardWriter(self._far_segment, self.spec, readers=self.signals)
        return {1: (sender, BoardReceiver(writer, self._form.codec))}

    def replace_writer(self, *, first: bool = False) -> None:
        if not first:
            self.links.join()
        self.writer: Any = Settled(self._form.ends["writer"](self.segment, self.spec, []), self.links.settle)
