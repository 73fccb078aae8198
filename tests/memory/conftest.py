"""The forms of ring and board that one contract suite runs over, and the processes that hold their ends.

An *end* is a small object with JSON-able answers around a real producer, consumer, writer or reader. In the in-process
form it is called directly; in the shared-memory form it lives in a forked process that got the descriptors by socket.
A further form supplies its own `Form` to the `form` fixture and runs the same suite.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, cast

import numpy as np
import pytest

from runtime.courier.codec import BoardCodec
from runtime.courier.ring_mirror import Packing
from runtime.memory.board import Board, BoardReader, BoardSpec, BoardWriter
from runtime.memory.eventfd import EventFd
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import Consumer, Ledger, Producer, Ring, RingSpec, read_ledger
from runtime.memory.segment import Segment
from support.mirrored_form import MirroredForm

LAYOUT = Layout((Field("number", "int64", (33,)), Field("real", "float32", (5, 7)), Field("flag", "bool", (3,))))
Json = Any


def fill(fields: dict[str, np.ndarray], value: int) -> None:
    """One value all over, so that a reader can tell a whole slot from a mixed one."""
    fields["number"].fill(value)
    fields["real"].fill(value)
    fields["flag"].fill(bool(value % 2))


def only_value(fields: dict[str, np.ndarray]) -> int:
    """The one value that `fill` put everywhere; AssertionError if there are several."""
    value = int(fields["number"][0])
    assert (fields["number"] == value).all()
    assert (fields["real"] == value).all()
    assert (fields["flag"] == bool(value % 2)).all()
    return value


class ProducerEnd:
    """A producer, for a test to drive from anywhere."""

    def __init__(self, segment: Segment, spec: RingSpec, events: Sequence[EventFd]) -> None:
        self._ring = Producer(segment, spec, data_ready=events[0], space_ready=events[1])

    def fill(self, value: int) -> bool:
        """Acquire and fill, without committing; False when full."""
        slot = self._ring.acquire()
        if slot is not None:
            fill(slot.fields, value)
        return slot is not None

    def commit(self, samples: int, marker: int = 0) -> None:
        self._ring.commit(samples, marker)

    def total(self) -> int:
        return self._ring.cumulative_samples


class ConsumerEnd:
    """A consumer, for a test to drive from anywhere."""

    def __init__(self, segment: Segment, spec: RingSpec, events: Sequence[EventFd]) -> None:
        self._ring = Consumer(segment, spec, data_ready=events[0], space_ready=events[1])

    def available(self) -> int:
        return self._ring.available

    def peek(self, index: int = 0) -> list[int] | None:
        """[sequence, samples, marker, value] or None."""
        slot = self._ring.peek(index)
        return None if slot is None else [slot.sequence, slot.samples, slot.marker, only_value(slot.fields)]

    def release(self, consumed: int = 0, stale: int = 0, other: int = 0) -> None:
        self._ring.release(consumed=consumed, dropped_stale=stale, dropped_other=other)


class WriterEnd:
    """A board's writer, for a test to drive from anywhere."""

    def __init__(self, segment: Segment, spec: BoardSpec, events: Sequence[EventFd]) -> None:
        self._board = BoardWriter(segment, spec, readers=events)

    def begin(self, value: int) -> None:
        fill(self._board.begin(), value)

    def publish(self, version: int) -> None:
        self._board.publish(version)

    def version(self) -> int:
        return self._board.version

    def current(self) -> int | None:
        """The value of the newest publication."""
        views = self._board.current()
        return None if views is None else only_value(views)


class ReaderEnd:
    """A board's reader, for a test to drive from anywhere."""

    def __init__(self, segment: Segment, spec: BoardSpec, events: Sequence[EventFd]) -> None:  # noqa: ARG002 - as all ends
        self._board = BoardReader(segment, spec)
        self._into = {field.name: np.empty(field.shape, field.dtype) for field in spec.layout.fields}

    def version(self) -> int:
        return self._board.version

    def read(self) -> list[int] | None:
        """[version, value] or None."""
        version = self._board.read(self._into)
        return None if version is None else [version, only_value(self._into)]

    def read_numbers(self) -> list[int]:
        """[version, value], having asked for one field only."""
        self._into["real"].fill(-7)
        version = self._board.read({"number": self._into["number"]})
        assert version is not None
        assert (self._into["real"] == -7).all()
        return [version, int(self._into["number"][0])]


ENDS: dict[str, Callable[[Segment, Any, Sequence[EventFd]], object]] = {
    "producer": ProducerEnd,
    "consumer": ConsumerEnd,
    "writer": WriterEnd,
    "reader": ReaderEnd,
}


def spec_of(kind: str, slots: int) -> RingSpec | BoardSpec:
    return RingSpec(kind, LAYOUT, slots) if kind in {"producer", "consumer"} else BoardSpec(kind, LAYOUT, slots)


class Host(Protocol):
    """Where an end lives."""

    def attach(self, kind: str, segment: Segment, slots: int, events: Sequence[EventFd]) -> object:
        """A fresh end over the segment, in place of the one before."""

    def kill(self) -> None:
        """Take the end away without a chance to tidy up."""


class Here:
    """Ends live in the test's own process; killing one means never calling it again."""

    def attach(self, kind: str, segment: Segment, slots: int, events: Sequence[EventFd]) -> object:
        return ENDS[kind](segment, spec_of(kind, slots), events)

    def kill(self) -> None:
        return None


def fork() -> int:
    """os.fork without the warning about other threads; the children here use only memory and sockets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def in_child(work: Callable[[], None]) -> int:
    """Fork a process that does `work` and exits with 0, or 1 after an exception; returns its pid."""
    pid = fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)  # never back into the test runner


def serve(channel: socket.socket) -> NoReturn:
    """The forked process: build the end that is asked for, answer calls, until killed."""
    end: object = None
    while True:
        text, fds, _, _ = socket.recv_fds(channel, 65536, 8)
        if not text:
            os._exit(0)
        name, *arguments = json.loads(text)
        try:
            if name == "attach":
                kind, slots = arguments
                end = ENDS[kind](Segment.attach(fds[0]), spec_of(kind, slots), [EventFd(fd) for fd in fds[1:]])
                answer: Json = None
            else:
                answer = getattr(end, name)(*arguments)
            channel.send(json.dumps(["ok", answer]).encode())
        except (ValueError, RuntimeError, IndexError, AssertionError) as problem:
            channel.send(json.dumps([type(problem).__name__, str(problem)]).encode())


class Elsewhere:
    """Ends live in a process of their own, made by fork; segment and eventfds are passed to it with SCM_RIGHTS."""

    def __init__(self) -> None:
        self._pid = 0

    def attach(self, kind: str, segment: Segment, slots: int, events: Sequence[EventFd]) -> object:
        if not self._pid:
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._pid = in_child(lambda: serve(theirs))
            theirs.close()
        assert segment.fd is not None
        self._call(["attach", kind, slots], [segment.fd, *(event.fileno() for event in events)])
        return Proxy(self._call)

    def kill(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._channel.close()
            self._pid = 0

    def _call(self, message: list[Json], fds: Sequence[int] = ()) -> Json:
        socket.send_fds(self._channel, [json.dumps(message).encode()], fds)
        status, answer = json.loads(self._channel.recv(65536))
        errors = {error.__name__: error for error in (ValueError, RuntimeError, IndexError, AssertionError)}
        if status != "ok":
            raise errors[status](answer)
        return answer


class Proxy:
    """Calls of any name, sent to where the end is."""

    def __init__(self, call: Callable[[list[Json]], Json]) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Callable[..., Json]:
        return lambda *arguments: self._call([name, *arguments])


class RingUnderTest:
    """Both ends of a fresh ring, the power to kill either, and a third party's ledger."""

    def __init__(self, form: Form, slots: int) -> None:
        self.spec = RingSpec("ring", LAYOUT, slots)
        self.segment = form.segment(self.spec.nbytes)
        Ring.format(self.segment, self.spec)
        self.data_ready, self.space_ready = form.events
        self._form = form
        self.producer = self._attach_producer()
        self.consumer = self._attach_consumer()

    def replace_producer(self) -> None:
        """Kill it, whatever it was doing, and attach its successor."""
        self._form.hosts[0].kill()
        self.producer = self._attach_producer()

    def replace_consumer(self) -> None:
        """Kill it, whatever it was doing, and attach its successor."""
        self._form.hosts[1].kill()
        self.consumer = self._attach_consumer()

    def ledger(self) -> Ledger:
        return read_ledger(self.segment, self.spec)

    def _attach_producer(self) -> ProducerEnd:
        end = self._form.hosts[0].attach("producer", self.segment, self.spec.slots, self._form.events)
        return cast("ProducerEnd", end)

    def _attach_consumer(self) -> ConsumerEnd:
        end = self._form.hosts[1].attach("consumer", self.segment, self.spec.slots, self._form.events)
        return cast("ConsumerEnd", end)


class BoardUnderTest:
    """Writer and reader of a fresh board, and the power to kill the writer."""

    def __init__(self, form: Form, slots: int) -> None:
        self.spec = BoardSpec("board", LAYOUT, slots)
        self.segment = form.segment(self.spec.nbytes)
        Board.format(self.segment, self.spec)
        self.signals = form.events
        self._form = form
        self.writer = self._attach_writer()
        self.reader = cast("ReaderEnd", form.hosts[1].attach("reader", self.segment, slots, ()))

    def replace_writer(self) -> None:
        """Kill it, whatever it was doing, and attach its successor."""
        self._form.hosts[0].kill()
        self.writer = self._attach_writer()

    def _attach_writer(self) -> WriterEnd:
        end = self._form.hosts[0].attach("writer", self.segment, self.spec.slots, self.signals)
        return cast("WriterEnd", end)


@dataclass
class Form:
    """A way for two ends to share memory."""

    segment: Callable[[int], Segment]
    hosts: tuple[Host, Host]
    events: tuple[EventFd, EventFd]

    def ring(self, slots: int) -> RingUnderTest:
        return RingUnderTest(self, slots)

    def board(self, slots: int) -> BoardUnderTest:
        return BoardUnderTest(self, slots)


@pytest.fixture
def child() -> Iterator[Callable[[Callable[[], None]], int]]:
    """Runs work in a forked process and gives its pid; whatever is left at the end is killed."""
    pids: list[int] = []

    def start(work: Callable[[], None]) -> int:
        pids.append(in_child(work))
        return pids[-1]

    yield start
    for pid in pids:
        try:
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        except ChildProcessError:
            continue  # the test has seen it end


MIRRORED = {
    "mirrored-direct": (Packing.DIRECT, BoardCodec.PLAIN),
    "mirrored-aggregated": (Packing.AGGREGATED, BoardCodec.PLAIN),
    "mirrored-compressed": (Packing.COMPRESSED, BoardCodec.INT8),
}


@pytest.fixture(scope="module", params=["in-process", "shared-memory", *MIRRORED])
def form(request: pytest.FixtureRequest) -> Iterator[Form | MirroredForm]:
    """Every form that must keep the contract."""
    if request.param in MIRRORED:
        mirrored = MirroredForm(LAYOUT, ENDS, *MIRRORED[request.param])
        yield mirrored
        mirrored.close()
        return
    events = (EventFd.create(), EventFd.create())
    if request.param == "in-process":
        made = Form(Segment.anonymous, (Here(), Here()), events)
    else:
        made = Form(lambda nbytes: Segment.create("form", nbytes), (Elsewhere(), Elsewhere()), events)
    yield made
    for host in made.hosts:
        host.kill()
    for event in events:
        event.close()
