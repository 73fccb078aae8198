"""What holds for every test: signals are as the test before found them, and no node starves another."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

_AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


@pytest.fixture(scope="session", autouse=True)
def _nodes_on_one_machine_do_not_starve_each_other() -> Iterator[None]:
    """Linux divides time by session before it divides it by process, and on some kernels a session with pinned
    processes gets none at all for many seconds while another one computes. Every agent has a session of its own; on
    machines of their own that makes no difference. Only root may switch it off; it is as before afterwards.
    """
    before = _AUTOGROUP.read_text().strip() if _AUTOGROUP.exists() else "0"
    if before != "1" or os.geteuid() != 0:
        yield
        return
    with suppress(OSError):  # a container may not allow it
        _AUTOGROUP.write_text("0")
    yield
    with suppress(OSError):
        _AUTOGROUP.write_text(before)


@pytest.fixture(autouse=True)
def _signals_are_left_as_they_were() -> Iterator[None]:
    """Loops that are processes of their own elsewhere run in this one here, and set what they want to hear."""
    heard = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
    before = {number: signal.getsignal(number) for number in heard}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
