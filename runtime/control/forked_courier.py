"""A courier that the forkserver has forked: what it says of it, in the form of a process that was started."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from runtime.contract.waiting import wait_readable
from runtime.control import fork_protocol as fork
from runtime.courier.environment import mpi_environment

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.control.fork_client import ForkClient

_UNTOLD_S = 1.0  #: an end that the forkserver has not told of by then will not be told: it is gone itself
_NEVER_BORN = 71


class ForkedCourier:
    """Answers `poll` and `send_signal` as a `subprocess.Popen` does."""

    def __init__(self, forks: ForkClient, name: str, attempt: int, order: fork.CourierOrder) -> None:
        """Orders the fork. OSError where there is no forkserver any more."""
        self.name = name
        self.attempt = attempt
        self._status: int | None = None
        self._pidfd: int | None = None
        self._signal: int | None = None  # to be sent as soon as there is a process
        self._ended_at: float | None = None
        forks.spawn(name, attempt, order)

    def told(self, message: fork.Forked | fork.ForkFailed | fork.Gone) -> None:
        """What the forkserver says of it."""
        match message:
            case fork.Forked(pid=pid):
                try:
                    self._pidfd = os.pidfd_open(pid)
                except ProcessLookupError:
                    return  # it has ended already, which is told next
                if self._signal is not None:
                    self.send_signal(self._signal)
            case fork.ForkFailed():
                self._status = _NEVER_BORN
            case fork.Gone(status=status):
                self._end(status)

    def poll(self) -> int | None:
        """Its exit code, or minus the signal; None while it runs."""
        if self._status is None and self._pidfd is not None and wait_readable(self._pidfd, 0.0):
            now = time.monotonic()
            self._ended_at = self._ended_at or now
            if now - self._ended_at > _UNTOLD_S:
                self._end(-signal.SIGKILL)
        return self._status

    def send_signal(self, number: int) -> None:
        """To the process if it is there, else as soon as it is."""
        self._signal = number
        if self._pidfd is not None:
            try:
                signal.pidfd_send_signal(self._pidfd, number)
            except ProcessLookupError:
                return  # its end is seen next

    def _end(self, status: int) -> None:
        self._status = status
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def courier_order(
    socket: Path, log: Path, interface: str, ports: tuple[int, int] | None, rdma: bool, abi: str | None
) -> fork.CourierOrder:
    """What a courier is told; the arguments are those of `start_courier`."""
    environment = mpi_environment(interface=interface, ports=ports, rdma=rdma, abi=abi)
    return fork.CourierOrder(socket=str(socket), log=str(log), environment=environment)
