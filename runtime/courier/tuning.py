"""What must be asked of the MPI library itself, as mpi4py does not have it or does it in another way.

One setting of MPICH must change while it runs, by MPI's tool interface.

`Isend` hands a message to libfabric and tries again while that says "not now". To a dead peer it says so for ever, and
the call would never return; while a connection is being made it also says so, and giving up then would break the join.
So patience is bounded, except while two worlds meet, which has a time limit of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_NAME = b"MPIR_CVAR_CH4_OFI_MAX_EAGAIN_RETRY"
_FOR_EVER = -1
_FUNNELED = 1  # only the thread that initialises calls MPI
RETRIES = 5_000  #: ≈ 50 ms, after which a peer that takes nothing is given up


def initialise(library: str | None) -> None:
    """MPI_Init_thread without holding Python's lock, so that another thread can serve what MPI asks meanwhile."""
    provided = ctypes.c_int()
    code = ctypes.CDLL(library).MPI_Init_thread(None, None, _FUNNELED, ctypes.byref(provided))
    if code != 0:
        raise RuntimeError(f"MPI could not be initialised: error {code}")


class Patience:
    """The handle of the setting; does nothing where the MPI library has no such setting."""

    def __init__(self, library: str | None) -> None:
        """`library` is the file of the MPI library that this process has loaded."""
        self._mpi = ctypes.CDLL(library)
        self._handle = ctypes.c_void_p()
        index, count, provided = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        known = (
            hasattr(self._mpi, "MPI_T_cvar_write")
            and self._mpi.MPI_T_init_thread(0, ctypes.byref(provided)) == 0
            and self._mpi.MPI_T_cvar_get_index(_NAME, ctypes.byref(index)) == 0
        )
        self._known = known and not self._mpi.MPI_T_cvar_handle_alloc(
            index, None, ctypes.byref(self._handle), ctypes.byref(count)
        )
        self._set(RETRIES)

    def _set(self, retries: int) -> None:
        if self._known:
            self._mpi.MPI_T_cvar_write(self._handle, ctypes.byref(ctypes.c_int(retries)))

    @contextmanager
    def unbounded(self) -> Iterator[None]:
        """While two worlds meet."""
        self._set(_FOR_EVER)
        try:
            yield
        finally:
            self._set(RETRIES)
