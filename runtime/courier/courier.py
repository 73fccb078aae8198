"""The courier component: takes orders from its agent, polls its links, beats its heart.

    python -m runtime.courier SOCKET

SOCKET is the agent's, of type SEQPACKET; `orders.py` says what goes over it.
"""

from __future__ import annotations

import os
import select
import socket
import time
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.states import PHASES, Phase
from runtime.courier import world
from runtime.courier.channel import LinkLostError, StuckTransferError
from runtime.courier.idle import BackOff
from runtime.courier.link import Link
from runtime.courier.orders import (
    MESSAGE_BYTES,
    ORDERS,
    Answer,
    Ask,
    CourierView,
    Drop,
    Join,
    Lost,
    MirrorBoard,
    MirrorRing,
    OpenPort,
    Order,
    Remove,
    Start,
    Stop,
)
from runtime.courier.peer import Mirrored, Peer, close_all
from runtime.courier.transport import explain, rdma_devices, transport_of
from runtime.memory.block import StatsBlock
from runtime.memory.control import ControlBlock
from runtime.memory.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_FDS = 64
_GOODBYE_S = 0.2  # a last word that has not left by then is not waited for
_LOOK_AT_ORDERS_S = 0.01  # while links are busy, how often the socket is looked at


class Courier:
    """One thread does everything; nothing waits but `Join`, and that only as long as it says."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._peers: dict[str, Peer] = {}
        self._key = b""
        self._block: StatsBlock | None = None
        self._control: ControlBlock | None = None
        self._port: str | None = None
        self._leaving: str | None = None

    def run(self) -> str:
        """Returns why it ended, in words. Raises StuckTransferError: leave at once then, and start another."""
        now = time.monotonic()
        back_off, looked = BackOff(now), now
        while self._leaving is None:
            now = time.monotonic()
            moved = self._poll_links(now)
            nap = back_off.nap(moved=moved, now=now)
            if self._block is not None:
                self._block.beat()
            if self._control is not None and self._control.command:
                return "told to stop"
            if nap > 0.0:
                self._sleep(nap)
                looked = time.monotonic()
            elif now - looked > _LOOK_AT_ORDERS_S:
                looked = now
                self._take_orders()
            else:
                os.sched_yield()
        return self._leaving

    def leave(self) -> None:
        """Tell every peer; their side of each link ends as with a break, and nothing is lost."""
        for peer in self._peers.values():
            if peer.link is not None and peer.link.proven:
                try:
                    peer.link.say_goodbye()
                    peer.link.flush_until(time.monotonic() + _GOODBYE_S, time.monotonic)
                except LinkLostError:
                    continue  # then it knows already
        if self._block is not None:
            self._block.phase = PHASES.index(Phase.DONE)

    def _poll_links(self, now: float) -> bool:
        moved = False
        for peer in self._peers.values():
            if peer.link is None:
                continue
            try:
                moved = peer.link.poll(now) or peer.link.busy or moved
                peer.count(now)
            except LinkLostError as problem:
                peer.drop(str(problem))
                self._say(Lost(peer=peer.name, reason=str(problem)))
        return moved

    def _sleep(self, nap: float) -> None:
        waits = [fd for peer in self._peers.values() if peer.link is not None for fd in peer.link.waits()]
        orders = self._channel.fileno()
        readable, _, _ = select.select([orders, *waits], [], [], nap)
        for fd in readable:
            if fd != orders:
                _drain(fd)
        if orders in readable:
            self._take_orders()  # last, for an order may close descriptors

    def _take_orders(self) -> None:
        while self._leaving is None:
            try:
                text, fds, _, _ = socket.recv_fds(self._channel, MESSAGE_BYTES, _MOST_FDS)
            except BlockingIOError:
                return
            except OSError as problem:
                self._leaving = f"the agent's socket failed: {problem}"
                return
            if not text:
                self._leaving = "the agent is gone"
                return
            self._say(self._answer(text, fds))

    def _answer(self, text: bytes, fds: Sequence[int]) -> Answer:
        taken = False
        try:
            order = ORDERS.validate_json(text)
            taken = isinstance(order, Start | MirrorRing | MirrorBoard)
            return Answer(value=self._obey(order, fds))
        except (ValidationError, ValueError, LinkLostError, OSError) as problem:
            return Answer(error=f"{type(problem).__name__}: {problem}")
        finally:
            if not taken:
                close_all(fds)

    def _obey(self, order: Order, fds: Sequence[int]) -> str:
        match order:
            case Start():
                self._start(order, fds)
            case OpenPort():
                self._port = self._port or world.open_port()
                return self._port
            case Join():
                self._join(order)
            case MirrorRing() | MirrorBoard():
                self._peer(order.peer).mirror(order.number, Mirrored(order, fds))
            case Remove():
                self._peer(order.peer).remove(order.number)
            case Drop():
                self._drop(order)
            case Ask():
                return self.view().model_dump_json()
            case Stop():
                self._leaving = "told to stop"
        return ""

    def _start(self, order: Start, fds: Sequence[int]) -> None:
        self._key = bytes.fromhex(order.key)
        block, control = (Segment.attach(fd) for fd in fds)
        self._block, self._control = StatsBlock(block, order.block), ControlBlock(control)
        self._block.pid, self._block.attempt = os.getpid(), order.attempt
        self._block.phase = PHASES.index(Phase.STEADY)

    def _join(self, order: Join) -> None:
        if not self._key:
            raise ValueError("join before start: there is no key yet")
        peer = self._peer(order.peer)
        peer.drop("joining again")
        if order.port is None and self._port is None:
            raise ValueError("nothing to accept at: no port was opened")
        channel = (
            world.accept(self._port or "", order.timeout_s)
            if order.port is None
            else world.connect(order.port, order.timeout_s)
        )
        now = time.monotonic()
        peer.joined(Link(channel, self._key, now, accepted=order.port is None), now)

    def _drop(self, order: Drop) -> None:
        peer = self._peer(order.peer)
        if peer.link is not None and peer.link.proven:
            peer.link.say_goodbye()
            peer.link.flush_until(time.monotonic() + _GOODBYE_S, time.monotonic)
        peer.drop("dropped by order")
        if order.forget:
            peer.forget()
            del self._peers[order.peer]

    def _peer(self, name: str) -> Peer:
        return self._peers.setdefault(name, Peer(name))

    def view(self) -> CourierView:
        """All about this courier."""
        return CourierView(
            library=world.library(),
            transport=transport_of(world.PROVIDER),
            why=explain(world.PROVIDER, rdma_devices()),
            links=[peer.view() for peer in self._peers.values()],
        )

    def _say(self, event: Answer | Lost) -> None:
        try:
            self._channel.send(event.model_dump_json().encode())
        except OSError as problem:
            self._leaving = f"the agent's socket failed: {problem}"


def _drain(fd: int) -> None:
    try:
        os.eventfd_read(fd)
    except BlockingIOError:
        return  # another look drained it


def run(path: str) -> int:
    """Serve the agent at `path` until told to leave; returns the exit code."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel.connect(path)
    channel.setblocking(False)
    courier = Courier(channel)
    try:
        reason = courier.run()
        courier.leave()
    except StuckTransferError as problem:
        print(f"courier leaves to free its memory: {problem}", flush=True)  # noqa: T201 - the agent keeps this as its log
        return 1
    print(f"courier left: {reason}", flush=True)  # noqa: T201 - the agent keeps this as its log
    return 0
