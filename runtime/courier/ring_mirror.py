"""The two ends of a mirrored ring. `protocol.py` decides; here bytes move between slots and messages.

Large slots go one by one, straight from the slot here into a free slot there, for which a receive is posted before the
sender is allowed to send. Small ones are aggregated: slots that are neighbours in the ring leave as one message as they
lie, headers included, and are copied from a staging buffer into their slots. While two messages are on their way,
further small slots wait and go together. Over a slow link such messages are coded besides, see `slot_codec.py`.
"""

from __future__ import annotations

import struct
from collections import deque
from enum import StrEnum
from typing import TYPE_CHECKING

from runtime.courier.codec import compressed_bound
from runtime.courier.port import BODY_LANE, HEAD_LANE
from runtime.courier.protocol import Kind, ProtocolError, ReceiveWindow, SendWindow
from runtime.courier.slot_codec import SlotCodec
from runtime.memory.mirrored import HEAD_BYTES, Disposition, MirrorConsumer, MirrorProducer
from runtime.memory.ring import SLOT_HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.courier.channel import Transfer
    from runtime.courier.gathered import Gathered
    from runtime.courier.port import Port
    from runtime.courier.protocol import Frame
    from runtime.memory.ring import RingSpec

DIRECT_BYTES = 128 * 1024  #: slots of at least this many bytes go one by one
BATCH_BYTES = 256 * 1024  #: aggregated messages have at most this many, uncompressed
_STAGED = 2  # aggregated messages on their way
_MOST_DISPOSITIONS = 64
_HEAD = struct.Struct("=qqq")  # sequence, samples, marker: the first words of a slot header


class Packing(StrEnum):
    """How slots become messages. Both ends must choose the same."""

    DIRECT = "direct"
    AGGREGATED = "aggregated"
    COMPRESSED = "compressed"


def packing_of(spec: RingSpec, *, wan: bool) -> Packing:
    """The packing for a ring's slots on a local (`wan` false) or wide-area link."""
    if wan:
        return Packing.COMPRESSED
    return Packing.DIRECT if spec.layout.nbytes >= DIRECT_BYTES else Packing.AGGREGATED


def _batch_slots(spec: RingSpec) -> int:
    return max(1, min(spec.slots, BATCH_BYTES // spec.stride))


class RingSender:
    """Consumes the local ring: what is committed is sent, what is acknowledged is released."""

    def __init__(self, ring: MirrorConsumer, packing: Packing, space_ready: Gathered | None = None) -> None:
        self._ring = ring
        self._space_ready = space_ready
        self._packing = packing
        self._codec = SlotCodec(ring.spec)
        self._window = SendWindow(ring.tail)
        self._moving: deque[tuple[int, tuple[Transfer, ...]]] = deque()  # number after the last slot, its transfers
        self._left = ring.tail  # slots below have left their memory for good
        self._to_release: deque[Disposition] = deque()

    def start(self, port: Port) -> None:
        """Say which ring this is."""
        self._port = port
        spec = self._ring.spec
        port.say(Kind.HELLO, self._ring.epoch, self._ring.tail, spec.layout.digest, list(Packing).index(self._packing))

    def hear(self, frame: Frame) -> None:
        """WELCOME or ACK."""
        if frame.kind is Kind.WELCOME:
            self._window.welcome(*frame.values)
            self._left = self._window.sent
        elif frame.kind is Kind.ACK:
            limit, first, *flat = frame.values
            parts = [Disposition(*flat[at : at + 3]) for at in range(0, len(flat), 3)]
            self._to_release.extend(self._window.acknowledge(limit, first, parts))
        else:
            raise ProtocolError(f"a ring's sender heard {frame}")

    def poll(self) -> bool:
        """Send, and release."""
        moved = False
        while self._moving and all(transfer.done() is not None for transfer in self._moving[0][1]):
            self._left = self._moving.popleft()[0]
            moved = True
        while self._to_release and self._ring.tail < self._left:
            part = self._to_release.popleft()
            self._ring.release(
                consumed=part.consumed, dropped_stale=part.dropped_stale, dropped_other=part.dropped_other
            )
            moved = True
        if self._space_ready is not None:
            self._space_ready.pass_on()
        pending = self._window.sendable(self._ring.head, self._ring.tail)
        if not pending:
            return moved
        if self._packing is Packing.DIRECT:
            for sequence in pending:
                self._send_one(sequence)
            return True
        return self._send_stretches(pending) or moved

    def _send_one(self, sequence: int) -> None:
        ring, port = self._ring, self._port
        head = port.send(ring.slot_head(sequence), HEAD_LANE)
        body = port.send(ring.payload(sequence), BODY_LANE)
        self._sent(1, (head, body))

    def _send_stretches(self, pending: range) -> bool:
        sent, ring = False, self._ring
        while pending and len(self._moving) < _STAGED:
            stretch = ring.stretch(pending.start, min(len(pending), _batch_slots(ring.spec)))
            count = len(stretch) // ring.spec.stride
            data = memoryview(self._codec.encode(stretch)) if self._packing is Packing.COMPRESSED else stretch
            self._sent(count, (self._port.send(data, BODY_LANE),))
            pending, sent = pending[count:], True
        return sent

    def _sent(self, count: int, transfers: tuple[Transfer, ...]) -> None:
        self._window.mark_sent(count)
        self._moving.append((self._window.sent, transfers))
        self._port.traffic.slots_sent += count
        self._port.traffic.sent_raw += count * self._ring.spec.layout.nbytes

    @property
    def busy(self) -> bool:
        """Slots are on their way."""
        return bool(self._moving)

    def waits(self) -> Sequence[int]:
        """The event of committed slots."""
        return (self._ring.data_ready.fileno(),)


class RingReceiver:
    """Produces the remote ring: what comes is committed, what is released is acknowledged."""

    def __init__(self, ring: MirrorProducer, packing: Packing, data_ready: Gathered | None = None) -> None:
        self._ring = ring
        self._data_ready = data_ready
        self._packing = packing
        self._codec = SlotCodec(ring.spec)
        self._window: ReceiveWindow | None = None
        self._posted: deque[tuple[Transfer, Transfer, bytearray]] = deque()  # head, body, buffer of the head
        self._staged: deque[tuple[Transfer, bytearray]] = deque()
        self._granted = 0

    def start(self, port: Port) -> None:
        """The sender speaks first."""
        self._port = port

    def hear(self, frame: Frame) -> None:
        """HELLO."""
        if frame.kind is not Kind.HELLO or self._window is not None:
            raise ProtocolError(f"a ring's receiver heard {frame}")
        epoch, tail, digest, packing = frame.values
        ring = self._ring
        if (digest, packing) != (ring.spec.layout.digest, list(Packing).index(self._packing)):
            raise ProtocolError(f"ring {ring.spec.name!r}: the two ends differ in layout or packing")
        window = ReceiveWindow.joined(ring.origin, epoch, tail, ring.head)
        if window is None:
            window = ReceiveWindow(ring.adopt(epoch, tail), ring.head, tail)
        self._window = window
        self._post()
        self._granted = self._limit(window)
        self._port.say(Kind.WELCOME, window.received, self._granted, ring.spec.slots)

    def poll(self) -> bool:
        """Commit what came, say what was released, post what became free."""
        window = self._window
        if window is None:
            return False
        moved = self._take_direct(window) if self._packing is Packing.DIRECT else self._take_staged(window)
        if self._data_ready is not None:
            self._data_ready.pass_on()
        released = window.to_acknowledge(self._ring.tail, _MOST_DISPOSITIONS)
        self._post()
        limit = self._limit(window)
        if not released and limit == self._granted:
            return moved
        parts = [self._ring.disposition(window.origin.local(sequence)) for sequence in released]
        flat = [number for part in parts for number in (part.consumed, part.dropped_stale, part.dropped_other)]
        self._port.say(Kind.ACK, limit, window.acknowledged, *flat)
        window.acknowledged += len(released)
        self._granted = limit
        return True

    def _limit(self, window: ReceiveWindow) -> int:
        if self._packing is Packing.DIRECT:
            return window.limit(self._ring.head + len(self._posted))
        return window.limit(self._ring.tail + self._ring.spec.slots)

    def _post(self) -> None:
        ring, port = self._ring, self._port
        if self._packing is Packing.DIRECT:
            free_until = ring.tail + ring.spec.slots
            for sequence in range(ring.head + len(self._posted), free_until):
                buffer = bytearray(HEAD_BYTES)
                head = port.receive(memoryview(buffer), HEAD_LANE)
                self._posted.append((head, port.receive(ring.payload(sequence), BODY_LANE), buffer))
            return
        while len(self._staged) < _STAGED:
            buffer = bytearray(compressed_bound(_batch_slots(ring.spec) * ring.spec.stride))
            self._staged.append((port.receive(memoryview(buffer), BODY_LANE), buffer))

    def _take_direct(self, window: ReceiveWindow) -> bool:
        moved = False
        while self._posted:
            head, body, buffer = self._posted[0]
            if head.done() is None or (nbytes := body.done()) is None:
                break
            sequence, samples, marker = _HEAD.unpack(buffer)
            if nbytes != self._ring.spec.layout.nbytes or not window.accept(sequence):
                raise ProtocolError(f"slot {sequence} of {nbytes} bytes came, slot {window.received} was next")
            self._posted.popleft()
            self._commit(samples, marker)
            self._port.traffic.received += nbytes
            moved = True
        return moved

    def _take_staged(self, window: ReceiveWindow) -> bool:
        moved, spec = False, self._ring.spec
        while self._staged and (nbytes := self._staged[0][0].done()) is not None:
            buffer = memoryview(self._staged.popleft()[1])[:nbytes]
            self._port.traffic.received += nbytes
            if self._packing is Packing.COMPRESSED:
                try:
                    buffer = self._codec.decode(buffer, _batch_slots(spec))
                except ValueError as problem:
                    raise ProtocolError(f"ring {spec.name!r}: {problem}") from problem
            for at in range(0, len(buffer), spec.stride):
                self._take_slot(window, buffer[at : at + spec.stride])
            moved = True
        return moved

    def _take_slot(self, window: ReceiveWindow, lying: memoryview) -> None:
        ring, start = self._ring, SLOT_HEADER_BYTES
        sequence, samples, marker = _HEAD.unpack_from(lying)
        if not window.accept(sequence):
            return
        if ring.head >= ring.tail + ring.spec.slots:
            raise ProtocolError(f"slot {sequence} came, for which there is no place")
        ring.payload(ring.head)[:] = lying[start : start + ring.spec.layout.nbytes]
        self._commit(samples, marker)

    def _commit(self, samples: int, marker: int) -> None:
        self._ring.acquire()
        self._ring.commit(samples, marker)
        self._port.traffic.slots_received += 1
        self._port.traffic.received_raw += self._ring.spec.layout.nbytes

    @property
    def busy(self) -> bool:
        """A slot has begun to come."""
        return bool(self._posted) and self._posted[0][0].done() is not None

    def waits(self) -> Sequence[int]:
        """The event of released slots."""
        return (self._ring.space_ready.fileno(),)
