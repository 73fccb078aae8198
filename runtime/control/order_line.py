"""Orders to a courier that wait for their turn: one is out at a time, the rest follow when its answer has come."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.courier.orders import Join

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from runtime.control.courier_process import CourierProcess


@dataclass(frozen=True, slots=True)
class Sent:
    """An order and the number of the join that it is about."""

    order: BaseModel
    serial: int


class OrderLine:
    """Holds nothing of who owns it: a circle would keep a courier's memory mapped until the collector comes by."""

    def __init__(self) -> None:
        self._waiting: deque[Sent] = deque()
        self._out: Sent | None = None
        self._out_since = 0.0

    def push(self, order: BaseModel, serial: int) -> None:
        """Send it when its turn comes."""
        self._waiting.append(Sent(order, serial))

    def advance(self, process: CourierProcess, descriptors_of: Callable[[BaseModel], list[int]], now: float) -> None:
        """Send the next order if none is out. A courier that is gone takes none.

        `descriptors_of` finds what travels with an order; KeyError where that is gone: then the order is left out.
        """
        while self._out is None and self._waiting:
            sent = self._waiting.popleft()
            try:
                descriptors = descriptors_of(sent.order)
            except KeyError:
                continue
            if not process.send(sent.order, descriptors):
                return
            self._out, self._out_since = sent, now

    def answered(self) -> Sent | None:
        """What the answer that has just come is about."""
        sent, self._out = self._out, None
        return sent

    def clear(self) -> None:
        """The courier is gone, and with it whatever it was told."""
        self._waiting.clear()
        self._out = None

    @property
    def idle(self) -> bool:
        """Nothing is out, nothing waits."""
        return self._out is None and not self._waiting

    def joins(self) -> bool:
        """A join is out: the courier hears and does nothing else meanwhile."""
        return self._out is not None and isinstance(self._out.order, Join)

    def joins_for_s(self, now: float) -> float:
        """How long that one has been out, 0 if none is."""
        return now - self._out_since if self.joins() else 0.0

    def join_ahead(self) -> bool:
        """A join is out or waits: whatever is said of a link now is about an older one."""
        return self.joins() or any(isinstance(sent.order, Join) for sent in self._waiting)
