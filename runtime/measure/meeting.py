"""Two couriers' MPI worlds meet, as they would in a run: whether MPI carries anything between two hosts at all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from runtime.contract.reach import Connect, Listen, Listening, Reached, Way
from runtime.control.network import address_in
from runtime.courier.channel import LinkLostError
from runtime.courier.environment import mpi_environment
from runtime.courier.pmi import launched
from runtime.courier.transport import rdma_devices


def accept(request: Listen, tell: Callable[[Listening], None]) -> None:
    """Open a port, tell it, and wait for as many peers as are expected. The process must then end by `os._exit`."""
    try:
        _prepare(request)
        from runtime.courier import world  # initialises MPI, by what the environment says now

        port = world.open_port()
    except Exception as error:  # whatever MPI's libraries raise when they are loaded is what was asked for
        tell(Listening(error=f"{type(error).__name__}: {error}"))
        return
    tell(Listening(address=port))
    deadline = time.monotonic() + request.within_s
    kept = []
    for _ in range(request.expected):
        left = deadline - time.monotonic()
        if left <= 0:
            return
        try:
            kept.append(world.accept(port, max(1, int(left))))
        except LinkLostError:
            continue


def connect(request: Connect) -> tuple[Reached, ...]:
    """Meet every target; MPI is not finalised, so the process should end soon."""
    try:
        _prepare(request)
        from runtime.courier import world
    except Exception as error:  # as above
        problem = f"{type(error).__name__}: {error}"
        return tuple(Reached(name=target.name, problem=problem) for target in request.targets)
    found = []
    kept = []  # a link that is given up would be told to its peer while others are still being made
    for target in request.targets:
        began = time.monotonic()
        try:
            kept.append(world.connect(target.address, max(1, int(request.within_s))))
        except LinkLostError as lost:
            found.append(Reached(name=target.name, problem=str(lost)))
        else:
            took_s = time.monotonic() - began
            found.append(Reached(name=target.name, took_s=took_s, transport=f"{world.PROVIDER}, {world.library()}"))
    return tuple(found)


def _prepare(way: Way) -> None:
    """The environment of a courier. NetworkError where this host has no address in the network."""
    device = address_in(way.network)[1]
    for name in [name for name in os.environ if launched([name])]:
        del os.environ[name]
    os.environ.update(mpi_environment(interface=device, ports=way.ports, rdma=bool(rdma_devices()), abi=way.mpi_abi))
