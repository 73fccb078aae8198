"""What it costs to send a fragment to another host: two couriers on the loopback device mirror a ring."""

from __future__ import annotations

import os
import secrets
import select
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from runtime.components.fragments import fragment_layout
from runtime.contract.operator import short_path
from runtime.courier.orders import EVENTS, MESSAGE_BYTES, Answer, Join, MirrorRing, OpenPort, Start
from runtime.courier.starting import start_courier
from runtime.measure.clocking import spread
from runtime.measure.stage import MeasureError, cpu_s_of
from runtime.memory.block import StatsBlock
from runtime.memory.control import CONTROL_BYTES
from runtime.memory.eventfd import EventFd
from runtime.memory.ring import Consumer, Producer, Ring, RingSpec
from runtime.memory.segment import Segment

if TYPE_CHECKING:
    from pydantic import BaseModel

    from runtime.contract.measurement import MeasureRequest, Spread

_PATIENCE_S = 10.0
_WINDOW_S = 0.15
_WINDOWS = 4
_SLOTS = 8


def courier_cpu_s(request: MeasureRequest) -> Spread:
    """Core seconds per fragment at one end, the mean of both. MeasureError where no courier comes up."""
    layout = fragment_layout(request.env, request.sizes, request.job.algorithm.name)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=request.folder)))
        key = secrets.token_hex(32)
        far, near = (stack.enter_context(_Courier(folder, name, key)) for name in ("far", "near"))
        source, sink = (_MirroredRing(RingSpec("fragments", layout, slots)) for slots in (_SLOTS, _SLOTS + 1))
        source.mirror(near, "far", "send")
        sink.mirror(far, "near", "receive")
        _join(far, near)
        looks = []
        moved = _move(source, sink, _WINDOW_S)  # the first ones find their way
        for _ in range(_WINDOWS + 1):
            looks.append((near.cpu_s + far.cpu_s, moved))
            moved += _move(source, sink, _WINDOW_S)
        return spread((b[0] - a[0]) / 2 / max(1, b[1] - a[1]) for a, b in pairwise(looks))


def _move(source: _MirroredRing, sink: _MirroredRing, seconds: float) -> int:
    """Commit whenever there is room on one side, release whatever comes on the other; returns how many came."""
    poller = select.poll()
    for event in (source.space, sink.data):
        poller.register(event.fileno(), select.POLLIN)
    moved, end = 0, time.monotonic() + seconds
    samples = 1
    while (left := end - time.monotonic()) > 0:
        while source.producer.acquire() is not None:
            source.producer.commit(samples)
        poller.poll(left * 1e3)
        source.space.drain()
        sink.data.drain()
        while (slot := sink.consumer.peek()) is not None:
            sink.consumer.release(consumed=slot.samples)
            moved += 1
    return moved


class _MirroredRing:
    """A ring with its two events, and both of its ends: the one here that the courier does not hold is used."""

    def __init__(self, spec: RingSpec) -> None:
        self._spec = spec
        self._segment = Segment.create(spec.name, spec.nbytes)
        Ring.format(self._segment, spec)
        self.data, self.space = EventFd.create(), EventFd.create()

    def mirror(self, courier: _Courier, peer: str, end: Literal["send", "receive"]) -> None:
        """Have the courier hold one end, and hold the other."""
        layout, slots = self._spec.layout.to_json(), self._spec.slots
        order = MirrorRing(peer=peer, number=1, end=end, name=self._spec.name, layout=layout, slots=slots)
        assert self._segment.fd is not None
        courier.order(order, self._segment.fd, self.data.fileno(), self.space.fileno())
        if end == "send":
            self.producer = Producer(self._segment, self._spec, data_ready=self.data, space_ready=self.space)
        else:
            self.consumer = Consumer(self._segment, self._spec, data_ready=self.data, space_ready=self.space)


class _Courier:
    """A courier process and its agent's end of the socket."""

    def __init__(self, folder: Path, name: str, key: str) -> None:
        self.name = name
        self._path, self._log, self._key = folder / f"{name}.sock", folder / f"{name}.log", key

    def __enter__(self) -> Self:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, short_path(self._path) as name:
            listener.bind(name)
            listener.listen(1)
            listener.settimeout(_PATIENCE_S)
            reachable = name.replace("/self/", f"/{os.getpid()}/", 1)  # the same folder, as another process sees it
            self._process = start_courier(Path(reachable), self._log, interface="lo")
            try:
                self._channel, _ = listener.accept()
            except TimeoutError as error:
                self._process.kill()
                raise MeasureError(f"a courier did not start: {self._last_words()}") from error
        self._channel.settimeout(_PATIENCE_S)
        block, control = Segment.create("block", StatsBlock.nbytes(1)), Segment.create("control", CONTROL_BYTES)
        assert block.fd is not None
        assert control.fd is not None
        self.order(Start(key=self._key), block.fd, control.fd)
        return self

    @property
    def cpu_s(self) -> float:
        return cpu_s_of(self._process.pid)

    def order(self, order: BaseModel, *descriptors: int) -> str:
        """Send an order; the value of its answer."""
        self.tell(order, *descriptors)
        return self.answer()

    def tell(self, order: BaseModel, *descriptors: int) -> None:
        socket.send_fds(self._channel, [order.model_dump_json().encode()], list(descriptors))

    def answer(self) -> str:
        """The next answer's value; MeasureError with what went wrong."""
        try:
            text = self._channel.recv(MESSAGE_BYTES)
        except TimeoutError as error:
            raise MeasureError("a courier does not answer") from error
        event = EVENTS.validate_json(text) if text else None
        if not isinstance(event, Answer) or event.error is not None:
            raise MeasureError(f"a courier failed: {event or self._last_words()}")
        return event.value

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines() if self._log.exists() else []
        return lines[-1] if lines else "it left no word"

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _join(accepting: _Courier, connecting: _Courier) -> None:
    port = accepting.order(OpenPort())
    accepting.tell(Join(peer=connecting.name, timeout_s=5))
    connecting.tell(Join(peer=accepting.name, port=port, timeout_s=5))
    accepting.answer()
    connecting.answer()
