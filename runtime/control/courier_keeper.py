"""Keeps the courier of one link alive, and passes on to it what the coordinator and the plan want of it.

One order is out at a time and its answer is taken when it comes, so a join that takes seconds holds up nobody but its
own link. A courier's life is decided as any component's (`component_machine`); a new one is told everything again,
and goes on from what the memory says once the coordinator has both ends join.
"""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.contract.messages import LinkReport
from runtime.contract.states import PHASES, ComponentState, Role
from runtime.control.component_life import (
    Beat,
    Exited,
    HandOver,
    Kill,
    LeaveRequested,
    Life,
    Log,
    ReplaceRequested,
    Spawn,
    Spawned,
    SpawnFailed,
    Start,
    StopRequested,
    Terminate,
    Tick,
)  # fmt: skip
from runtime.control.component_machine import step
from runtime.control.courier_process import CourierProcess
from runtime.control.link_state import LinkState
from runtime.control.mirror_orders import descriptors_for, mirror_orders
from runtime.control.order_line import OrderLine, Sent
from runtime.courier import orders
from runtime.courier.orders import Answer, CourierView, MirrorBoard, MirrorRing
from runtime.memory.block import StatsBlock
from runtime.resources import CONTROL
from runtime.wiring import block_of, courier_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pydantic import BaseModel

    from runtime.contract.job import HealthConfig
    from runtime.contract.paths import RunPaths
    from runtime.control.component_life import Event
    from runtime.control.courier_process import Started
    from runtime.resources import Resources
    from runtime.wiring import Wiring

JOIN_TIMEOUT_S = 3  #: how long a courier waits for the other one to join
JOIN_SLACK_S = 3.0  #: and how much longer it may be silent then
ASK_EVERY_S = 1.0  #: for numbers of a link that is up
TRY_AGAIN_AFTER_S = 10.0  #: a courier that was given up
MANY_RESTARTS = 1000  #: a link is never given up because its peer keeps dying


class CourierKeeper:
    """One end of the link to `peer`. `start` gets name, attempt, socket, log; `log` gets kind, message and cause."""

    def __init__(
        self,
        peer: str,
        paths: RunPaths,
        resources: Resources,
        health: HealthConfig,
        *,
        start: Callable[[str, int, Path, Path], Started],
        log: Callable[[str, str, str | None], object],
    ) -> None:
        self.peer = peer
        self.name = courier_of(peer)
        self.block = StatsBlock(resources.segment(block_of(self.name)))
        self.life = Life.of(self.name, Role.COURIER, health.model_copy(update={"restarts": MANY_RESTARTS}))
        self._paths = paths
        self._resources = resources
        self._start = start
        self._log = log
        self._key = (paths.keys / "link.key").read_text().strip()
        self._link = LinkState(peer)
        self._process: CourierProcess | None = None
        self._began_at = 0.0
        self._leaving = False
        self._dismissed = False  # it was killed on purpose: no death
        self._gave_up_at: float | None = None
        self._wiring: Wiring | None = None
        self._wanted: dict[int, MirrorRing | MirrorBoard] = {}
        self._placed: set[int] = set()
        self._removed: set[int] = set()
        self._line = OrderLine()
        self._asked_at = 0.0

    # -- what is wanted

    def assign(self, wiring: Wiring, *, wan: bool) -> None:
        """Mirror what this wiring says from now on."""
        self._wiring = wiring
        self._wanted = mirror_orders(wiring, self.peer, wan=wan)
        if self.life.state is ComponentState.PENDING:
            self._feed(Start(id=f"link-{self.peer}"))
        elif self._process is not None and self._process.pid is not None:
            self._mirror()
            self._send_next()

    def open(self, serial: int) -> None:
        """Open a port for the join with this number."""
        if not self._order(orders.OpenPort(), serial):
            self._link.opened(serial, None, "its courier is not there")

    def join(self, serial: int, port: str | None) -> None:
        """Accept the peer, or connect to `port`."""
        self._link.joining(serial)
        self._order(orders.Join(peer=self.peer, port=port, timeout_s=JOIN_TIMEOUT_S), serial)

    def reset(self, serial: int) -> None:
        """Begin anew, as the node at the other end has. Again with the same number: that has been done."""
        if serial <= self._link.report.serial:
            return
        self._link.reset(serial)
        self._feed(ReplaceRequested(id=f"reset-{serial}"))

    def leave(self) -> None:
        """This link is needed no more."""
        self._leaving = True
        self._feed(LeaveRequested(id=f"unlink-{self.peer}"))
        self._hasten()

    def stop(self, reason: str) -> None:
        """The run ends: the courier knows it from the control block."""
        self._leaving = True
        self._feed(StopRequested(id=f"stop: {reason}"))
        self._hasten()

    def kill(self) -> None:
        """End one that was asked to leave and does not."""
        if self._process is not None:
            self._dismissed = True
            self._process.kill()

    @property
    def over(self) -> bool:
        """It has left, and nothing more will come."""
        return self._leaving and self.life.over and self._process is None

    # -- what is seen

    def descriptors(self) -> list[int]:
        """Readable when there is something to `hear`."""
        return self._process.descriptors() if self._process is not None else []

    def hear(self) -> None:
        """Take what the courier has said."""
        process = self._process
        if process is None:
            return
        came = process.pid is None
        events = process.receive()
        if came and process.pid is not None:
            self._feed(Spawned(id=f"courier-{process.pid}", pid=process.pid))
            self._introduce()
        for event in events:
            if isinstance(event, Answer):
                self._answered(event)
            elif not self._line.join_ahead():
                self._link.lost(event.reason)
        self._send_next()

    def look(self, now: float) -> None:
        """Once a period: heartbeat, exit, numbers."""
        self.hear()
        process = self._process
        if process is not None:
            status = process.status()
            if status is not None:
                self._ended(process, status)
            elif process.pid is not None:
                beats, phase = self.block.beats, PHASES[self.block.phase]
                self._feed(Beat(id=f"beat-{beats}", phase=phase, beat=beats, attempt=self.block.attempt))
            elif self.life.state is ComponentState.STOPPING or now - self._began_at > self.life.health.init:
                process.kill()  # it has nothing yet that could be lost; its end is seen next
        if not self._line.joins() or self._line.joins_for_s(now) > JOIN_TIMEOUT_S + JOIN_SLACK_S:
            self._feed(Tick(id="tick"))
        self._ask(now)
        self._try_again(now)

    def report(self) -> LinkReport:
        """This end of the link."""
        return self._link.report

    def close(self) -> None:
        """Give everything back; a courier that is still there leaves."""
        if self._process is not None:
            self._process.close()
            self._process = None

    # -- orders

    def _introduce(self) -> None:
        assert self._process is not None
        self._placed.clear()
        self._removed.clear()
        self._order(orders.Start(attempt=self.life.attempt, key=self._key), self._link.report.serial)
        self._mirror()

    def _mirror(self) -> None:
        """Say what is mirrored no more, and what is from now on."""
        serial = self._link.report.serial
        for number in self._placed - self._wanted.keys():
            self._placed.discard(number)
            self._removed.add(number)
            self._line.push(orders.Remove(peer=self.peer, number=number), serial)
        fresh = [order for number, order in self._wanted.items() if number not in self._placed]
        if any(order.number in self._removed for order in fresh):
            # What is still on its way under a number must not meet its successor: the next join begins cleanly.
            self._removed.clear()
            self._line.push(orders.Drop(peer=self.peer), serial)
        for order in fresh:
            self._line.push(order, serial)
            self._placed.add(order.number)

    def _order(self, order: BaseModel, serial: int) -> bool:
        """False where there is no courier to tell."""
        if self._process is None or self._process.pid is None:
            return False
        self._line.push(order, serial)
        self._send_next()
        return True

    def _send_next(self) -> None:
        if self._process is not None:
            self._line.advance(self._process, self._descriptors, time.monotonic())

    def _descriptors(self, order: BaseModel) -> list[int]:
        if isinstance(order, orders.Start):
            segments = [self._resources.segment(name) for name in (block_of(self.name), CONTROL)]
            return [segment.fd for segment in segments if segment.fd is not None]
        if isinstance(order, MirrorRing | MirrorBoard):
            assert self._wiring is not None
            return descriptors_for(order, self._wiring, self._resources)
        return []

    def _answered(self, answer: Answer) -> None:
        sent = self._line.answered()
        match sent:
            case Sent(order=orders.Ask(), serial=serial) if answer.error is None:
                self._link.seen(serial, CourierView.model_validate_json(answer.value))
            case Sent(order=orders.Start()):
                self._link.started(answer.error)
            case Sent(order=orders.OpenPort(), serial=serial):
                self._link.opened(serial, answer.value, answer.error)
            case Sent(order=orders.Join(), serial=serial):
                self._link.joined(serial, answer.error)
                self._removed.clear()
            case Sent(order=orders.Drop()) if not self._line.join_ahead():
                self._link.lost("a mirror begins anew")
            case Sent(order=order) if answer.error is not None:
                what = type(order).__name__
                self._log("courier.refused", f"{self.name} refused {what}: {answer.error}", None)

    def _ask(self, now: float) -> None:
        """Often while it is not known whether the peer has the key, seldom after that."""
        if not self._line.idle or self._process is None or self._process.pid is None:
            return
        state = self._link.report.state
        if state == "joining" or (state == "up" and now - self._asked_at >= ASK_EVERY_S):
            self._asked_at = now
            self._order(orders.Ask(), self._link.report.serial)

    # -- its life

    def _hasten(self) -> None:
        """One that is in the middle of a join, or starts up, hears nothing, and has nothing to lose."""
        if self._line.joins() or not self._link.has_courier:
            self.kill()

    def _ended(self, process: CourierProcess, status: int) -> None:
        pid, words = process.pid, process.last_words() if status >= 0 else None
        if self._dismissed:
            status = 0
        elif status == 0 and not (self._leaving or self.life.replacing):
            status = 1  # it left unasked: it is missed
        process.close()
        self._process = None
        self._line.clear()
        self._link.gone(f"its courier ended with status {status}" + (f": {words}" if words else ""))
        if pid is None:
            self._feed(SpawnFailed(id="courier", reason=words or f"its process ended with status {status}"))
        else:
            self._feed(Exited(id=f"exit-{pid}", status=status, report=words))

    def _feed(self, event: Event) -> None:
        self.life, effects = step(self.life, event, now=time.monotonic())
        for effect in effects:
            match effect:
                case Spawn(attempt=attempt):
                    self._begin(attempt)
                case Kill() if self._process is not None:
                    self._process.kill()
                case Terminate() if self._process is not None:
                    self._process.kill(signal.SIGTERM)
                case HandOver() if self._process is not None:
                    self._hasten()
                    self._process.hang_up()
                case Log(kind=kind, message=message, cause=cause):
                    self._log(kind, message, cause)

    def _begin(self, attempt: int) -> None:
        self._began_at, self._dismissed = time.monotonic(), False
        path, log = self._paths.courier_socket(self.peer), self._paths.log(self.name, attempt)
        try:
            self._process = CourierProcess(path, log, lambda *places: self._start(self.name, attempt, *places))
        except OSError as error:
            self._feed(SpawnFailed(id=f"spawn-{attempt}", reason=str(error)))

    def _try_again(self, now: float) -> None:
        """Without a courier there is no link, so one that was given up is tried again, seldom."""
        if self.life.state is not ComponentState.FAILED or self._leaving:
            self._gave_up_at = None
            return
        self._gave_up_at = now if self._gave_up_at is None else self._gave_up_at
        if now - self._gave_up_at > TRY_AGAIN_AFTER_S:
            fresh = Life.of(self.name, Role.COURIER, self.life.health)
            self.life = replace(fresh, attempt=self.life.attempt, restarts=self.life.restarts + 1)
            self._feed(Start(id=f"again-{self.peer}"))
