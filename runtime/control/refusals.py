"""Who was turned away at the wire, in the log: whoever knocks without end must not fill the disk."""

from __future__ import annotations

import logging
import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

QUIET_S = 10.0  #: between two lines about the same address and reason
_MOST_KNOWN = 1000


class Refusals:
    """One line for the first refusal of an address, then one every `QUIET_S` with the number of those in between."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[tuple[str, str], tuple[float, int]] = {}  # when the last line was written, how many since

    def note(self, reason: str, address: str) -> None:
        """Somebody at `address` (without its port, which changes with every try) was refused."""
        now, key = self._clock(), (reason, address)
        at, since = self._told.get(key, (None, 0))
        if at is not None and now - at < QUIET_S:
            self._told[key] = (at, since + 1)
            return
        log.warning("wire.refused reason=%s address=%s%s", reason, address, f" times={since + 1}" if since else "")
        if len(self._told) >= _MOST_KNOWN:
            self._told.clear()
        self._told[key] = (now, 0)


def address_of(descriptor: int) -> str:
    """Where an accepted connection comes from, as far as that can still be seen: it may be gone already."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as copy:
        peer = copy.getpeername()
        return str(peer[0]) if isinstance(peer, tuple) else "this machine"
    return "unknown"
