"""Waiting for one descriptor. By `poll`: `select` takes none above 1023, and an agent of many components has such."""

from __future__ import annotations

import select


def wait_readable(descriptor: int, timeout_s: float) -> bool:
    """Whether there is something to read, or its end, within so many seconds."""
    return _wait(descriptor, select.POLLIN, timeout_s)


def wait_writable(descriptor: int, timeout_s: float) -> bool:
    """Whether something can be written, or nobody reads any more, within so many seconds."""
    return _wait(descriptor, select.POLLOUT, timeout_s)


def _wait(descriptor: int, event: int, timeout_s: float) -> bool:
    asked = select.poll()
    asked.register(descriptor, event)
    return bool(asked.poll(max(0.0, 1000.0 * timeout_s)))
