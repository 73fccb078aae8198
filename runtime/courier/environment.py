"""The environment that MPI needs, and the command for libraries that must have their own launcher."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

#: libfabric's own choice without RDMA is `sockets`, which is slower and ends the process when a peer dies.
TCP_PROVIDER = "tcp"


def mpi_environment(
    *,
    interface: str | None = None,
    ports: tuple[int, int] | None = None,
    rdma: bool = False,
    abi: str | None = None,
) -> dict[str, str]:
    """Variables to add to a courier's environment.

    `interface` is the network device to use, such as "eth0"; `ports` the first and the last TCP port to listen on.
    With `rdma` libfabric chooses among all of its providers, else TCP is taken. `abi` is the MPI library that mpi4py
    loads in place of the one beside it: its file or folder, or, where it is found anyway, its kind, such as "mpich".

    The ofi netmod, because ucx was seen to crash when a peer dies.
    """
    made = {"MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_DEBUG_SUMMARY": "1"}
    if not rdma:
        made["FI_PROVIDER"] = TCP_PROVIDER
    if interface is not None:
        made["FI_TCP_IFACE"] = made["FI_SOCKETS_IFACE"] = interface
    if ports is not None:
        made["FI_TCP_PORT_LOW_RANGE"], made["FI_TCP_PORT_HIGH_RANGE"] = map(str, ports)
    if abi is not None:
        made["MPI4PY_LIBMPI" if "/" in abi else "MPI4PY_MPIABI"] = abi
    return made


def find_mpiexec() -> str | None:
    """The `mpiexec` beside this Python if there is one, else the one on PATH, else None."""
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def alone(mpiexec: str, command: Sequence[str]) -> list[str]:
    """The command under `mpiexec` as an MPI world of one process."""
    return [mpiexec, "-n", "1", *command]
