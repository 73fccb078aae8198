"""The MPI world of one courier, and how worlds meet. Importing this module initialises MPI.

Each courier is a world of one process, so that no other's death is its own. Worlds meet by accept and connect, always
with a time limit, and only when both sides have been told to: nobody else is served meanwhile.
Errors are returned, never fatal. Nobody finalises: after a peer's death that may hang (`living.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mpi4py

from runtime.courier.channel import LinkLostError
from runtime.courier.transport import SHARED_MEMORY, captured_stdout, loaded_library, mapped_files, provider_in

mpi4py.rc.initialize = mpi4py.rc.finalize = False
from mpi4py import MPI  # noqa: E402 - it must not initialise by itself: it would hold Python's lock meanwhile

from runtime.courier.mpi_channel import MpiChannel, first_line  # noqa: E402 - it imports MPI too
from runtime.courier.pmi import become_alone  # noqa: E402
from runtime.courier.tuning import Patience, initialise  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

_library = loaded_library("libmpi")
with captured_stdout() as _summary:  # with MPIR_CVAR_DEBUG_SUMMARY, MPICH says here which provider it has chosen
    become_alone()
    initialise(_library)
for _left in mapped_files(SHARED_MEMORY):
    _left.unlink(missing_ok=True)  # made for neighbours in one's world, of which there are none, and never taken away

#: The libfabric provider that MPI has chosen, such as "tcp" or "verbs;ofi_rxm"; "" if MPI did not say.
PROVIDER = provider_in(_summary.text)

_patience = Patience(_library)
MPI.COMM_SELF.Set_errhandler(MPI.ERRORS_RETURN)
MPI.COMM_WORLD.Set_errhandler(MPI.ERRORS_RETURN)


def library() -> str:
    """The MPI library's first line, such as "MPICH Version: 5.0.2"."""
    return " ".join(MPI.Get_library_version().splitlines()[0].split())


def open_port() -> str:
    """An address at which peers may connect; tell it only to those that may know it. Raises LinkLostError."""
    try:
        return str(MPI.Open_port())
    except MPI.Exception as problem:
        raise LinkLostError(f"no port: {first_line(problem)}") from problem


def accept(port: str, timeout_s: int) -> MpiChannel:
    """Wait for one peer to connect to our port. LinkLostError if none does in time."""
    return _meet(lambda limit: MPI.COMM_SELF.Accept(port, limit), timeout_s)


def connect(port: str, timeout_s: int) -> MpiChannel:
    """Connect to a peer that accepts. LinkLostError if it does not in time."""
    return _meet(lambda limit: MPI.COMM_SELF.Connect(port, limit), timeout_s)


def _meet(meet: Callable[[MPI.Info], MPI.Intercomm], timeout_s: int) -> MpiChannel:
    limit = MPI.Info.Create()
    limit.Set("timeout", str(max(1, timeout_s)))
    try:
        with _patience.unbounded():
            comm = meet(limit)
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        if comm.Get_remote_size() != 1:
            raise LinkLostError(f"a world of {comm.Get_remote_size()} processes came, couriers are alone in theirs")
        return MpiChannel(comm)
    except MPI.Exception as problem:
        raise LinkLostError(f"no peer within {timeout_s} s: {first_line(problem)}") from problem
    finally:
        limit.Free()
