"""The shared memory and eventfds of one node: made by the agent, or attached from descriptors that it passed on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from runtime.memory.block import StatsBlock
from runtime.memory.board import Board
from runtime.memory.control import CONTROL_BYTES, ControlBlock
from runtime.memory.eventfd import EventFd
from runtime.memory.ring import Ring
from runtime.memory.segment import Segment
from runtime.replay.memory import Replay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.wiring import Wiring

CONTROL = "control"
BLOCKS = "blocks"


class Resources:
    """Named segments and eventfds. Descriptors are mapped when first asked for, so a component maps only its own."""

    def __init__(self) -> None:
        self._segments: dict[str, Segment] = {}
        self._events: dict[str, EventFd] = {}
        self._unmapped: dict[str, int] = {}
        self._unused_events: dict[str, int] = {}
        self._raw: dict[str, int] = {}

    @classmethod
    def create(cls, wiring: Wiring, *, shared: bool, base_env_steps: int = 0) -> Resources:
        """Allocate and format everything: memfd where `shared`, else memory of this process alone.

        `base_env_steps` are those of earlier attempts of the run.
        """
        self = cls()
        sizes = {CONTROL: CONTROL_BYTES, BLOCKS: StatsBlock.nbytes(len(wiring.components)), **wiring.segments()}
        for name, size in sizes.items():
            self._segments[name] = Segment.create(name, size) if shared else Segment.anonymous(size, name)
        ControlBlock(self._segments[CONTROL]).base_env_steps = base_env_steps
        for name, ring in wiring.rings.items():
            Ring.format(self._segments[name], ring)
        for name, board in wiring.boards.items():
            Board.format(self._segments[name], board)
        for name, layout in wiring.replays.items():
            Replay.reset(layout.views(self._segments[name].memory))
        self._events = {name: EventFd.create() for name in wiring.events()}
        return self

    @classmethod
    def attach(cls, names: Sequence[str], descriptors: Sequence[int]) -> Resources:
        """Take over descriptors; `names` are those of `descriptors()` on the other side, in the same order."""
        self = cls()
        for name, descriptor in zip(names, descriptors, strict=True):
            kind, _, key = name.partition(":")
            if kind == "segment":
                self._unmapped[key] = descriptor
            elif kind == "event":
                self._unused_events[key] = descriptor
            else:
                self._raw[name] = descriptor
        return self

    def segment(self, name: str) -> Segment:
        if name in self._unmapped:
            self._segments[name] = Segment.attach(self._unmapped.pop(name), name)
        return self._segments[name]

    def event(self, name: str) -> EventFd:
        if name in self._unused_events:
            self._events[name] = EventFd(self._unused_events.pop(name))
        return self._events[name]

    def raw(self, name: str) -> int:
        """A descriptor that is neither segment nor eventfd."""
        return self._raw[name]

    def descriptors(self) -> tuple[list[str], list[int]]:
        """Everything that can be passed on, with the names that `attach` wants."""
        names, found = [], []
        for name, segment in self._segments.items():
            assert segment.fd is not None, "memory of one process cannot be passed on"
            names.append(f"segment:{name}")
            found.append(segment.fd)
        for name, event in self._events.items():
            names.append(f"event:{name}")
            found.append(event.fileno())
        return names, found

    def drop_unused(self) -> None:
        """Close what nobody has asked for by now."""
        for descriptor in (*self._unmapped.values(), *self._unused_events.values()):
            os.close(descriptor)
        self._unmapped.clear()
        self._unused_events.clear()

    def close(self) -> None:
        """Let go of all mappings and descriptors."""
        self.drop_unused()
        for segment in self._segments.values():
            segment.close()
        for event in self._events.values():
            event.close()
