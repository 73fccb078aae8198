"""A channel over a joined MPI communicator: two-sided, non-blocking, nothing that waits for the peer."""

from __future__ import annotations

import time

from mpi4py import MPI

from runtime.courier.channel import LinkLostError, StuckTransferError
from runtime.courier.port import mirror_of

_CANCEL_S = 1.0  # a message that is half here when its link is given up has this long to arrive whole


class MpiTransfer:
    """A request; its buffer stays alive as long as it."""

    __slots__ = ("_nbytes", "_request", "_status")

    def __init__(self, request: MPI.Request) -> None:
        self._request = request
        self._status = MPI.Status()
        self._nbytes: int | None = None

    def done(self) -> int | None:
        """See `Transfer`."""
        if self._nbytes is None:
            try:
                if self._request.Test(self._status):
                    self._nbytes = self._status.Get_count(MPI.BYTE)
            except MPI.Exception as problem:
                raise lost(problem) from problem
        return self._nbytes

    def withdraw(self, deadline: float) -> None:
        """Make sure that nothing is written any more. StuckTransferError if that is not so by `deadline`."""
        if self._nbytes is not None:
            return
        try:
            self._request.Cancel()
            while not self._request.Test():
                if time.monotonic() > deadline:
                    raise StuckTransferError("a receive ended neither by its message nor by being cancelled")
                time.sleep(0.001)
        except MPI.Exception:
            return  # an error completes the request too


class MpiChannel:
    """Owns a communicator that was made by accept or connect, with exactly one process at the other end."""

    def __init__(self, comm: MPI.Intercomm) -> None:
        self._comm = comm
        self._receives: dict[int, list[MpiTransfer]] = {}

    def send(self, data: memoryview, tag: int) -> MpiTransfer:
        """See `Channel`."""
        try:
            return MpiTransfer(self._comm.Isend([data, MPI.BYTE], 0, tag))
        except MPI.Exception as problem:
            raise lost(problem) from problem

    def receive(self, into: memoryview, tag: int) -> MpiTransfer:
        """See `Channel`."""
        try:
            transfer = MpiTransfer(self._comm.Irecv([into, MPI.BYTE], 0, tag))
        except MPI.Exception as problem:
            raise lost(problem) from problem
        posted = self._receives.setdefault(tag, [])
        posted.append(transfer)
        while posted[0]._nbytes is not None:  # they end in order, so this is all it takes to forget those that ended
            del posted[0]
        return transfer

    def withdraw(self, mirror: int) -> None:
        """See `Channel`."""
        deadline = time.monotonic() + _CANCEL_S
        for tag in [tag for tag in self._receives if mirror_of(tag) == mirror]:
            for transfer in self._receives.pop(tag):
                transfer.withdraw(deadline)

    def close(self) -> None:
        """See `Channel`. The communicator is left alone: taking it apart is a collective that waits for the peer."""
        deadline = time.monotonic() + _CANCEL_S
        for transfers in self._receives.values():
            for transfer in transfers:
                transfer.withdraw(deadline)
        self._receives.clear()


def lost(problem: MPI.Exception) -> LinkLostError:
    """The MPI error in words."""
    return LinkLostError(f"MPI: {first_line(problem)}")


def first_line(problem: MPI.Exception) -> str:
    """What MPI says, without the stack of its functions."""
    return str(problem.error_string).partition(", error stack")[0]
