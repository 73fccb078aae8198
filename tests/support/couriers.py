"""Real couriers for tests, ordered about through their sockets."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.courier.orders import (
    EVENTS,
    MESSAGE_BYTES,
    Answer,
    Ask,
    CourierView,
    Join,
    Lost,
    MirrorBoard,
    MirrorRing,
    OpenPort,
    Start,
)
from runtime.courier.starting import start_courier
from runtime.memory.block import StatsBlock
from runtime.memory.board import Board, BoardReader, BoardSpec, BoardWriter
from runtime.memory.control import CONTROL_BYTES
from runtime.memory.eventfd import EventFd
from runtime.memory.ring import Consumer, Producer, Ring, RingSpec, read_ledger
from runtime.memory.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from runtime.courier.codec import BoardCodec

KEY = "ab" * 32
PATIENCE_S = 60.0


def until(true: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Look again and again; AssertionError with `what` when the time is over."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.001)


class RunningCourier:
    """One courier process and its agent's end of the socket."""

    def __init__(self, folder: Path, name: str, *, interface: str = "lo", key: str = KEY, **options: Any):
        self.name = name
        self.lost: list[Lost] = []
        path = folder / f"{name}.sock"
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(path))
        listener.listen(1)
        listener.settimeout(PATIENCE_S)
        self.log = folder / f"{name}.log"
        self.process = start_courier(path, self.log, interface=interface, **options)
        try:
            self._channel, _ = listener.accept()
        except TimeoutError as problem:
            raise RuntimeError(f"{name} did not start: {self.log.read_text()}") from problem
        listener.close()
        self._channel.settimeout(PATIENCE_S)
        self.block_segment = Segment.create("block", StatsBlock.nbytes(1))
        self.control = Segment.create("control", CONTROL_BYTES)
        self.block = StatsBlock(self.block_segment)
        self.order(Start(key=key), self.block_segment, self.control)

    def order(self, order: BaseModel, *held: Any) -> str:
        """Send an order with the descriptors of what is held; its value, or AssertionError with its error."""
        self.tell(order, *held)
        return self.answer()

    def tell(self, order: BaseModel, *held: Any) -> None:
        """Send an order without waiting for the answer."""
        fds = [thing.fd if isinstance(thing, Segment) else thing.fileno() for thing in held]
        socket.send_fds(self._channel, [order.model_dump_json().encode()], fds)

    def answer(self) -> str:
        """The next answer's value."""
        while True:
            text = self._channel.recv(MESSAGE_BYTES)
            assert text, f"{self.name} is gone: {self.log.read_text()}"
            event = EVENTS.validate_json(text)
            if isinstance(event, Answer):
                assert event.error is None, event.error
                return event.value
            self.lost.append(event)

    def hear(self) -> list[Lost]:
        """Links lost so far."""
        self._channel.settimeout(0.0)
        with suppress(BlockingIOError, ConnectionError):
            while text := self._channel.recv(MESSAGE_BYTES):
                event = EVENTS.validate_json(text)
                assert isinstance(event, Lost)
                self.lost.append(event)
        self._channel.settimeout(PATIENCE_S)
        return self.lost

    @property
    def alive(self) -> bool:
        """It has not ended."""
        return self.process.poll() is None

    def view(self) -> CourierView:
        return CourierView.model_validate_json(self.order(Ask()))

    @property
    def pid(self) -> int:
        """Of the courier itself, not of mpiexec."""
        return self.block.pid

    def signal(self, number: int) -> None:
        """Send the courier itself a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL to the courier itself."""
        self.signal(signal.SIGKILL)
        self.end()

    def end(self) -> None:
        """Close its socket, upon which it leaves, and see it out."""
        self._channel.close()
        try:
            self.process.wait(10.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self.block_segment.close()
        self.control.close()


def join(accepting: RunningCourier, connecting: RunningCourier) -> None:
    """Tell both sides, as a coordinator would."""
    port = accepting.order(OpenPort())
    accepting.tell(Join(peer=connecting.name, timeout_s=5))
    connecting.tell(Join(peer=accepting.name, port=port, timeout_s=5))
    accepting.answer()
    connecting.answer()


class NodeRing:
    """A ring in one node's memory with its events."""

    def __init__(self, spec: RingSpec) -> None:
        self.spec = spec
        self.segment = Segment.create(spec.name, spec.nbytes)
        Ring.format(self.segment, spec)
        self.events = [EventFd.create(), EventFd.create()]

    def producer(self) -> Producer:
        return Producer(self.segment, self.spec, data_ready=self.events[0], space_ready=self.events[1])

    def consumer(self) -> Consumer:
        return Consumer(self.segment, self.spec, data_ready=self.events[0], space_ready=self.events[1])

    def ledger(self) -> Any:
        return read_ledger(self.segment, self.spec)

    def mirror(self, courier: RunningCourier, peer: str, number: int, end: Any, *, wan: bool = False) -> None:
        layout = self.spec.layout.to_json()
        order = MirrorRing(
            peer=peer, number=number, end=end, name=self.spec.name, layout=layout, slots=self.spec.slots, wan=wan
        )
        courier.order(order, self.segment, *self.events)

    def close(self) -> None:
        self.segment.close()
        for event in self.events:
            event.close()


class NodeBoard:
    """A board in one node's memory with the event of its publications."""

    def __init__(self, spec: BoardSpec) -> None:
        self.spec = spec
        self.segment = Segment.create(spec.name, spec.nbytes)
        Board.format(self.segment, spec)
        self.published = EventFd.create()

    def mirror(self, courier: RunningCourier, peer: str, number: int, end: Any, codec: BoardCodec) -> None:
        order = MirrorBoard(
            peer=peer,
            number=number,
            end=end,
            name=self.spec.name,
            layout=self.spec.layout.to_json(),
            slots=self.spec.slots,
            codec=codec,
        )
        courier.order(order, self.segment, self.published)

    def writer(self) -> BoardWriter:
        return BoardWriter(self.segment, self.spec, readers=[self.published])

    def reader(self) -> BoardReader:
        return BoardReader(self.segment, self.spec)

    def close(self) -> None:
        self.segment.close()
        self.published.close()
