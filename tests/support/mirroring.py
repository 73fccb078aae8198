"""Two couriers' links in one process, over a memory channel, with a clock that a test turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.courier.channel import LinkLostError
from runtime.courier.link import Link
from support.memory_channel import channel_pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.courier.port import Mirror

KEY = b"k" * 32
Ends = tuple["Mirror", "Mirror"]


class TwoLinks:
    """Both ends of one link. `ends` makes fresh mirrors at each join, as couriers do."""

    def __init__(self, ends: Callable[[], dict[int, Ends]]) -> None:
        self._ends = ends
        self.now = 0.0
        self.joins = 0
        self.join()

    def join(self, cut_after: int | None = None) -> None:
        """Break what is there and join anew."""
        if self.joins:
            for link in self.links:
                link.close()
        self.joins += 1
        self.channels = channel_pair(cut_after)
        self.links = (
            Link(self.channels[0], KEY, self.now, accepted=True),
            Link(self.channels[1], KEY, self.now, accepted=False),
        )
        for number, pair in self._ends().items():
            for link, mirror in zip(self.links, pair, strict=True):
                link.add(number, mirror)

    def settle(self) -> None:
        """Poll both until nothing moves; join again whenever the wire breaks."""
        quiet = 0
        while quiet < 2:
            try:
                moved = [link.poll(self.now) for link in self.links]
            except LinkLostError:
                self.join()
                continue
            quiet = 0 if any(moved) else quiet + 1
