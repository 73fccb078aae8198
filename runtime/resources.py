"""The shared memory and eventfds of one node: made by the agent, or attached from descriptors that it passed on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from runtime.memory.board import Board
from runtime.memory.control import CONTROL_BYTES, ControlBlock
from runtime.memory.eventfd import EventFd
from runtime.memory.ring import Ring
from runtime.memory.segment import Segment
from runtime.replay.memory import Replay

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from runtime.wiring import Wiring

CONTROL = "control"


class Resources:
    """Named segments and eventfds. Descriptors are mapped when first asked for, so a component maps only its own."""

    def __init__(self) -> None:
        self._segments: dict[str, Segment] = {}
        self._events: dict[str, EventFd] = {}
        self._unmapped: dict[str, int] = {}
        self._unused_events: dict[str, int] = {}
        self._raw: dict[str, int] = {}
        self._shared = True

    @classmethod
    def create(cls, wiring: Wiring, *, shared: bool, base_env_steps: int = 0) -> Resources:
        """Allocate and format everything: memfd where `shared`, else memory of this process alone.

        `base_env_steps` are those of earlier attempts of the run.
        """
        self = cls()
        self._shared = shared
        self._segments[CONTROL] = self._allocate(CONTROL, CONTROL_BYTES)
        control = ControlBlock(self._segments[CONTROL])
        control.base_env_steps = control.global_env_steps = base_env_steps
        self.extend(None, wiring)
        return self

    def extend(self, before: Wiring | None, after: Wiring) -> list[str]:
        """Allocate and format what `after` has and `before` has not; returns its names as `descriptors` gives them.

        OSError where there is no room for it all; then nothing of it is left.
        """
        old_segments, old_events = _parts(before)
        segments = {name: size for name, size in after.segments().items() if name not in old_segments}
        events = [name for name in after.events() if name not in old_events]
        made = [*map(_segment_name, segments), *map(_event_name, events)]
        try:
            for name, size in segments.items():
                self._segments[name] = self._allocate(name, size)
            for name in events:
                self._events[name] = EventFd.create()
        except OSError:
            self.forget(made)
            raise
        for name in segments:
            self._format(name, after)
        return made

    def drop(self, before: Wiring, after: Wiring) -> list[str]:
        """Let go of what `before` has and `after` has not; returns its names as `descriptors` gave them."""
        (old_segments, old_events), (segments, events) = _parts(before), _parts(after)
        gone = [_segment_name(name) for name in old_segments if name not in segments]
        gone += [_event_name(name) for name in old_events if name not in events]
        self.forget(gone)
        return gone

    def _allocate(self, name: str, size: int) -> Segment:
        return Segment.create(name, size) if self._shared else Segment.anonymous(size, name)

    def _format(self, name: str, wiring: Wiring) -> None:
        segment = self._segments[name]
        if name in wiring.rings:
            Ring.format(segment, wiring.rings[name])
        elif name in wiring.boards:
            Board.format(segment, wiring.boards[name])
        elif name in wiring.replays:
            Replay.reset(wiring.replays[name].views(segment.memory))

    @classmethod
    def attach(cls, names: Sequence[str], descriptors: Sequence[int]) -> Resources:
        """Take over descriptors; `names` are those of `descriptors()` on the other side, in the same order."""
        self = cls()
        self.take(names, descriptors)
        return self

    def take(self, names: Sequence[str], descriptors: Sequence[int]) -> None:
        """Take over more descriptors."""
        for name, descriptor in zip(names, descriptors, strict=True):
            kind, _, key = name.partition(":")
            if kind == "segment":
                self._unmapped[key] = descriptor
            elif kind == "event":
                self._unused_events[key] = descriptor
            else:
                self._raw[name] = descriptor

    def forget(self, names: Sequence[str]) -> None:
        """Let go of segments and eventfds; of those that are not there, nothing."""
        for name in names:
            kind, _, key = name.partition(":")
            unused, used = (
                (self._unmapped, self._segments) if kind == "segment" else (self._unused_events, self._events)
            )
            if (descriptor := unused.pop(key, None)) is not None:
                os.close(descriptor)
            if (held := used.pop(key, None)) is not None:
                held.close()

    def segment(self, name: str) -> Segment:
        if name in self._unmapped:
            self._segments[name] = Segment.attach(self._unmapped.pop(name), name)
        return self._segments[name]

    def holds(self, name: str) -> bool:
        """Whether there is such a segment."""
        return name in self._segments or name in self._unmapped

    def event(self, name: str) -> EventFd:
        if name in self._unused_events:
            self._events[name] = EventFd(self._unused_events.pop(name))
        return self._events[name]

    def raw(self, name: str) -> int:
        """A descriptor that is neither segment nor eventfd."""
        return self._raw[name]

    def descriptors(self, only: Collection[str] | None = None) -> tuple[list[str], list[int]]:
        """What can be passed on, all of it or `only` that, with the names that `attach` wants."""
        names, found = [], []
        for key, segment in self._segments.items():
            if only is None or _segment_name(key) in only:
                assert segment.fd is not None, "memory of one process cannot be passed on"
                names.append(_segment_name(key))
                found.append(segment.fd)
        for key, event in self._events.items():
            if only is None or _event_name(key) in only:
                names.append(_event_name(key))
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


def _parts(wiring: Wiring | None) -> tuple[dict[str, int], tuple[str, ...]]:
    """Its segments and its eventfds."""
    return (wiring.segments(), wiring.events()) if wiring is not None else ({}, ())


def _segment_name(key: str) -> str:
    return f"segment:{key}"


def _event_name(key: str) -> str:
    return f"event:{key}"
