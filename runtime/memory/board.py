"""The board: one writer, many readers, the newest version wins. Nobody waits for anybody.

Memory: a header (magic, slots, stride, digest | published), then slots of one header line and the payload.
Publication k (from 1) goes to place (k - 1) mod slots. Each slot has a `stamp`: 2k - 1 while publication k is being
written, 2k once it is whole. `published` is the number of the newest whole publication.

    writer   stamp = 2k - 1 → fence → write payload → fence → version, stamp = 2k → fence → published = k
    reader   load published = k → fence → stamp must be 2k → fence → copy → fence → stamp must still be 2k

The first writer fence keeps payload stores behind the odd stamp, so a reader whose copy caught one of them finds the
stamp changed at its second look (its own fence keeps the copy before that look). A stamp names one publication and
never comes back. The place being written is the one published longest ago, so a reader is disturbed only if the writer
begins its `slots`-th publication from here during one copy; it then starts over with the newer version. A writer killed
anywhere leaves `published` at a whole publication, and its successor writes the unfinished place again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from runtime.memory.eventfd import EventFd
from runtime.memory.fence import fence
from runtime.memory.layout import Layout, Views, align, poison
from runtime.memory.segment import WORD, Segment

_MAGIC = 0x424F4152_544A0001  # "BOAR", ours, form 1
_LINE = 128
_HEADER_BYTES = 4096
SLOT_HEADER_BYTES = _LINE  #: before the payload

_MAGIC_WORD, _SLOTS_WORD, _STRIDE_WORD, _DIGEST_WORD = range(4)
PUBLISHED = _LINE // WORD
_STAMP, _VERSION = range(2)

NOTHING_PUBLISHED = -1
_READ_TRIES = 1000


@dataclass(frozen=True)
class BoardSpec:
    """Name, layout and depth of a board. At least two slots: one is read while the other is written."""

    name: str
    layout: Layout
    slots: int = 4

    def __post_init__(self) -> None:
        if self.slots < 2:
            raise ValueError(f"board {self.name!r} needs at least 2 slots, not {self.slots}")

    @property
    def stride(self) -> int:
        """Bytes from one slot to the next."""
        return align(SLOT_HEADER_BYTES + self.layout.nbytes, _LINE)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole board."""
        return _HEADER_BYTES + self.slots * self.stride

    def slot_at(self, place: int) -> int:
        """Byte offset of the slot with number `place` modulo `slots`; its payload is SLOT_HEADER_BYTES further on."""
        return _HEADER_BYTES + place % self.slots * self.stride


class Board:
    """What both sides share: header words and prebuilt views of every slot."""

    def __init__(self, segment: Segment, spec: BoardSpec) -> None:
        self.spec = spec
        self._memory = segment.memory
        self._words = segment.words(0, _HEADER_BYTES // WORD)
        expected = [_MAGIC, spec.slots, spec.stride, spec.layout.digest]
        found = [self._words[word] for word in (_MAGIC_WORD, _SLOTS_WORD, _STRIDE_WORD, _DIGEST_WORD)]
        if found != expected:
            raise ValueError(f"board {spec.name!r}: segment {segment.name!r} holds {found}, expected {expected}")
        self._slot_words, self._slot_views = _slots(segment, spec)

    @staticmethod
    def format(segment: Segment, spec: BoardSpec) -> None:
        """Lay an empty, poisoned board into `segment`, once, before anybody attaches. ValueError if it does not fit."""
        if segment.nbytes < spec.nbytes:
            raise ValueError(f"board {spec.name!r} needs {spec.nbytes} bytes, segment has {segment.nbytes}")
        words = segment.words(0, _HEADER_BYTES // WORD)
        for word in range(len(words)):
            words[word] = 0
        for slot_words, views in zip(*_slots(segment, spec), strict=True):
            slot_words[_STAMP], slot_words[_VERSION] = 0, NOTHING_PUBLISHED
            poison(views.values())
        words[_SLOTS_WORD], words[_STRIDE_WORD], words[_DIGEST_WORD] = spec.slots, spec.stride, spec.layout.digest
        fence()
        words[_MAGIC_WORD] = _MAGIC


def _slots(segment: Segment, spec: BoardSpec) -> tuple[tuple[memoryview[int], ...], tuple[Views, ...]]:
    starts = [_HEADER_BYTES + place * spec.stride for place in range(spec.slots)]
    words = tuple(segment.words(start, SLOT_HEADER_BYTES // WORD) for start in starts)
    views = tuple(spec.layout.views(segment.memory, start + SLOT_HEADER_BYTES) for start in starts)
    return words, views


class BoardWriter(Board):
    """The writing side. One at a time; a successor goes on from the last whole publication."""

    def __init__(self, segment: Segment, spec: BoardSpec, *, readers: Sequence[EventFd] = ()) -> None:
        super().__init__(segment, spec)
        self._readers = tuple(readers)
        self._published = self._words[PUBLISHED]
        self._writing = False

    @property
    def version(self) -> int:
        """The version published last, also by a predecessor; -1 if none."""
        return self._slot_words[self._newest][_VERSION] if self._published else NOTHING_PUBLISHED

    def current(self) -> Views | None:
        """The newest publication in place, None if there is none. For the writer alone, to read after a restart."""
        return self._slot_views[self._newest] if self._published else None

    def begin(self) -> Views:
        """Arrays to fill in place. They hold an old version or poison: write every field. The same until `publish`."""
        place = self._published % self.spec.slots
        if not self._writing:
            self._slot_words[place][_STAMP] = 2 * self._published + 1
            fence()  # no store to the payload may be seen before the odd stamp
            self._writing = True
        return self._slot_views[place]

    def publish(self, version: int) -> None:
        """Make what `begin` gave the newest version (≥ 0) and signal every reader."""
        if not self._writing:
            raise RuntimeError(f"board {self.spec.name!r}: publish without begin")
        if version < 0:
            raise ValueError(f"board {self.spec.name!r}: version {version} is negative")
        words = self._slot_words[self._published % self.spec.slots]
        words[_VERSION] = version
        fence()  # payload and version are there when the stamp says whole
        words[_STAMP] = 2 * self._published + 2
        self._published += 1
        self._writing = False
        fence()  # the stamp says whole when the publication becomes the newest
        self._words[PUBLISHED] = self._published
        for reader in self._readers:
            reader.signal()

    @property
    def _newest(self) -> int:
        return (self._published - 1) % self.spec.slots


class BoardReader(Board):
    """A reading side; any number of them, none known to the writer."""

    def __init__(self, segment: Segment, spec: BoardSpec) -> None:
        super().__init__(segment, spec)
        self._seen = 0  # publication whose version is known
        self._seen_version = NOTHING_PUBLISHED

    @property
    def version(self) -> int:
        """Version of the newest publication, -1 if none. One load when nothing is new."""
        if self._words[PUBLISHED] != self._seen:
            self._read({})
        return self._seen_version

    def read(self, into: Mapping[str, np.ndarray]) -> int | None:
        """Copy the named fields of the newest publication, all of one version; returns it, or None if there is none.

        `into` may name a subset; its arrays have the field's shape. Starts over when the writer overtakes it, so
        `into` is defined only after the return. Never blocks the writer. Raises TimeoutError if overtaken 1000
        times in a row, which a board with more slots cures.
        """
        if self._words[PUBLISHED] == 0:
            return None
        return self._read(into)

    def _read(self, into: Mapping[str, np.ndarray]) -> int:
        for _ in range(_READ_TRIES):
            published = self._words[PUBLISHED]
            fence()  # after the load of published: stamp, version and payload are at least that new
            place = (published - 1) % self.spec.slots
            words, views = self._slot_words[place], self._slot_views[place]
            if words[_STAMP] == 2 * published:
                fence()  # the copy starts after the first look at the stamp …
                version = words[_VERSION]
                for name, target in into.items():
                    np.copyto(target, views[name])
                fence()  # … and is over before the second
                if words[_STAMP] == 2 * published:
                    self._seen, self._seen_version = published, version
                    return version
            os.sched_yield()  # overtaken; let a writer that shares our core finish
        raise TimeoutError(f"board {self.spec.name!r}: overtaken {_READ_TRIES} times in a row")
