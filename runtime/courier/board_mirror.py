"""The two ends of a mirrored board: the newest version only, once per node, one on its way at a time."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from runtime.courier.codec import BoardCodec, BoardDecoder, BoardEncoder, Form, message_bound
from runtime.courier.port import BODY_LANE, HEAD_LANE
from runtime.courier.protocol import Kind, ProtocolError
from runtime.memory.mirrored import MirrorBoardReader, MirrorBoardWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.courier.channel import Transfer
    from runtime.courier.port import Port
    from runtime.courier.protocol import Frame
    from runtime.memory.eventfd import EventFd

_HEAD = struct.Struct("=qq")  # version, form


class BoardSender:
    """Reads the local board. What is published while a version is on its way is skipped but for the newest."""

    def __init__(self, board: MirrorBoardReader, codec: BoardCodec, published: EventFd | None = None) -> None:
        self._board = board
        self._codec = codec
        self._published = published
        layout = board.spec.layout
        self._staging = memoryview(bytearray(layout.nbytes))  # the writer may overtake a slow link, so copy first
        self._views = layout.views(self._staging)
        self._encoder = BoardEncoder(layout, codec)
        self._moving: tuple[Transfer, ...] = ()
        self._welcomed = False
        self._awaited = False  # an acknowledgement is due
        self._taken = 0  # publication that was sent last

    def start(self, port: Port) -> None:
        """Say which board this is."""
        self._port = port
        port.say(Kind.BOARD_HELLO, self._board.spec.layout.digest, list(BoardCodec).index(self._codec))

    def hear(self, frame: Frame) -> None:
        """BOARD_WELCOME or BOARD_ACK."""
        if frame.kind is Kind.BOARD_WELCOME:
            self._welcomed = True
        elif frame.kind is Kind.BOARD_ACK:
            self._awaited = False
        else:
            raise ProtocolError(f"a board's sender heard {frame}")

    def poll(self) -> bool:
        """Send the newest publication if the one before has arrived."""
        if self._awaited or not self._welcomed or self._board.publication == self._taken:
            return False
        if any(transfer.done() is None for transfer in self._moving):
            return False
        version = self._board.read(self._views)
        if version is None:
            return False
        self._taken = self._board.taken
        form, data = Form.KEYFRAME, self._staging
        if self._codec is not BoardCodec.PLAIN:
            form, coded = self._encoder.encode(self._views)
            data = memoryview(coded)
        head = self._port.send(memoryview(_HEAD.pack(version, form)), HEAD_LANE)
        self._moving = (head, self._port.send(data, BODY_LANE))
        self._awaited = True
        self._port.traffic.boards_sent += 1
        self._port.traffic.sent_raw += len(self._staging)
        return True

    @property
    def busy(self) -> bool:
        """A version is on its way."""
        return self._awaited

    def waits(self) -> Sequence[int]:
        """The event of publications, where there is one."""
        return () if self._published is None else (self._published.fileno(),)


class BoardReceiver:
    """Writes the remote board. Plain versions arrive straight in the place of the next publication."""

    def __init__(self, board: MirrorBoardWriter, codec: BoardCodec) -> None:
        self._board = board
        self._codec = codec
        self._decoder = BoardDecoder(board.spec.layout, codec)
        self._head = bytearray(_HEAD.size)
        self._staging = bytearray(0 if codec is BoardCodec.PLAIN else message_bound(board.spec.layout))
        self._posted: tuple[Transfer, Transfer] | None = None

    def start(self, port: Port) -> None:
        """The sender speaks first."""
        self._port = port

    def hear(self, frame: Frame) -> None:
        """BOARD_HELLO."""
        expected = (self._board.spec.layout.digest, list(BoardCodec).index(self._codec))
        if frame.kind is not Kind.BOARD_HELLO or frame.values != expected or self._posted is not None:
            raise ProtocolError(f"board {self._board.spec.name!r}: expected a hello with {expected}, heard {frame}")
        self._post()
        self._port.say(Kind.BOARD_WELCOME)

    def _post(self) -> None:
        place = self._board.payload() if self._codec is BoardCodec.PLAIN else memoryview(self._staging)
        head = self._port.receive(memoryview(self._head), HEAD_LANE)
        self._posted = (head, self._port.receive(place, BODY_LANE))

    def poll(self) -> bool:
        """Publish what came."""
        if self._posted is None or self._posted[0].done() is None or (nbytes := self._posted[1].done()) is None:
            return False
        version, form = _HEAD.unpack(self._head)
        if self._codec is BoardCodec.PLAIN:
            if nbytes != self._board.spec.layout.nbytes:
                raise ProtocolError(f"board {self._board.spec.name!r}: a version of {nbytes} bytes came")
        else:
            try:
                self._decoder.decode(Form(form), memoryview(self._staging)[:nbytes], self._board.begin())
            except ValueError as problem:
                raise ProtocolError(f"board {self._board.spec.name!r}: {problem}") from problem
        self._board.publish(version)
        self._port.say(Kind.BOARD_ACK, version)
        traffic = self._port.traffic
        traffic.received += nbytes
        traffic.boards_received += 1
        traffic.received_raw += self._board.spec.layout.nbytes
        self._post()
        return True

    @property
    def busy(self) -> bool:
        """Nothing is due here without the sender."""
        return False

    def waits(self) -> Sequence[int]:
        """Nothing: only the link wakes it."""
        return ()
