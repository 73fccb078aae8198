"""A TCP connection that a test can cut: a relay between a port of its own and a target, in a thread."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress

_CHUNK = 64 << 10


class Cuttable:
    """Relays 127.0.0.1:`port` to a target port.

    `limit`: bytes towards the target after which it cuts, once; `limit_outward`: bytes from there.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.limit: int | None = None
        self.limit_outward: int | None = None
        self.cuts = 0
        self.silent = False
        self._selector = selectors.DefaultSelector()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._inward: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._relay, daemon=True)
        self._thread.start()

    def _relay(self) -> None:
        while not self._over.is_set():
            for key, _ in self._selector.select(0.05):
                if key.fileobj is self._listener:
                    self._join()
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._pairs:
                    self._move(key.fileobj)

    def _join(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(("127.0.0.1", self.target), timeout=2.0)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        self._pairs |= {near: far, far: near}
        self._inward.add(near)
        for end in (near, far):
            self._selector.register(end, selectors.EVENT_READ)

    def _move(self, end: socket.socket) -> None:
        try:
            data = end.recv(_CHUNK)
            if data and not self.silent:
                self._pairs[end].sendall(data)
        except OSError:
            data = b""
        if not data or self._enough(len(data), inward=end in self._inward):
            self.cuts += 1
            self._part(end)

    def _enough(self, size: int, *, inward: bool) -> bool:
        limit = self.limit if inward else self.limit_outward
        left = None if limit is None or limit <= size else limit - size
        if inward:
            self.limit = left
        else:
            self.limit_outward = left
        return limit is not None and left is None

    def _part(self, end: socket.socket) -> None:
        for side in (end, self._pairs[end]):
            with suppress(KeyError):
                self._selector.unregister(side)
            self._inward.discard(side)
            self._pairs.pop(side, None)
            side.close()

    def close(self) -> None:
        self._over.set()
        self._thread.join(5.0)
        for end in list(self._inward):
            self._part(end)
        self._listener.close()
        self._selector.close()
