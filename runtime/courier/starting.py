"""The one way to start a courier."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from runtime.courier.environment import alone, mpi_environment
from runtime.courier.pmi import launched

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def start_courier(
    socket: Path,
    log: Path,
    *,
    interface: str,
    ports: tuple[int, int] | None = None,
    rdma: bool = False,
    abi: str | None = None,
    mpiexec: str | None = None,
    prefix: Sequence[str] = (),
) -> subprocess.Popen[bytes]:
    """Start a courier that takes its orders from `socket`, where the caller listens, and appends to `log`.

    It listens on the address of the network device `interface` and nowhere else, on a port from `ports` if that is
    given. It leaves when its end of the socket closes. `rdma`: libfabric may choose among all of its providers. `abi`
    names another MPI library than the one beside mpi4py. `mpiexec` is for MPI libraries that need their own launcher;
    where that listens is up to it. `prefix` stands before the command.
    """
    environ = {name: value for name, value in os.environ.items() if not launched([name])}
    environ |= mpi_environment(interface=interface, ports=ports, rdma=rdma, abi=abi)
    command = [sys.executable, "-m", "runtime.courier", str(socket)]
    with log.open("ab") as out:
        return subprocess.Popen(
            [*prefix, *(command if mpiexec is None else alone(mpiexec, command))],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
