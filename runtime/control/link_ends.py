"""This node's ends of its links: a courier for each node that it shares mirrors with."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from runtime.contract.messages import JoinLink, LinkReport, OpenLink, ResetLink
from runtime.contract.order import MPI_ABI_VARIABLE, MPIEXEC_VARIABLE
from runtime.control.assignment import is_wan
from runtime.control.network import NetworkError, address_in
from runtime.wiring import courier_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Plan
    from runtime.control.courier_keeper import CourierKeeper
    from runtime.control.courier_process import Started
    from runtime.control.fork_client import ForkClient
    from runtime.control.fork_protocol import Forked, ForkFailed, Gone
    from runtime.control.forked_courier import ForkedCourier
    from runtime.control.outbox import Outbox
    from runtime.resources import Resources
    from runtime.wiring import Wiring

_LOOK_EVERY_S = 0.01


class LinkEnds:
    """Couriers come and go with the plan. `network`: CIDR of the network that they use, none for loopback."""

    def __init__(
        self,
        paths: RunPaths,
        resources: Resources,
        forks: ForkClient,
        outbox: Outbox,
        node: str,
        network: str | None,
    ) -> None:
        self._forks = forks
        self._forked: dict[str, ForkedCourier] = {}
        self._paths = paths
        self._resources = resources
        self._outbox = outbox
        self._node = node
        self._network = network
        self._keepers: dict[str, CourierKeeper] = {}
        self._leaving: list[CourierKeeper] = []

    def assign(self, plan: Plan, wiring: Wiring) -> None:
        """Mirror what the plan says from now on. Call it while the memory of what is mirrored no more still exists."""
        for peer in self._keepers.keys() - set(wiring.peers):
            keeper = self._keepers.pop(peer)
            keeper.leave()
            self._leaving.append(keeper)
        for peer in wiring.peers:
            if peer not in self._keepers:
                try:
                    self._keepers[peer] = self._keeper(plan, peer)
                except NetworkError as error:
                    self._outbox.log("courier.refused", f"no link to {peer}: {error}", None, courier_of(peer))
                    continue
            self._keepers[peer].assign(wiring, wan=is_wan(plan, self._node, peer))

    def _keeper(self, plan: Plan, peer: str) -> CourierKeeper:
        from runtime.control.courier_keeper import CourierKeeper  # a run of one node has no use for it

        name = courier_of(peer)
        self._interface, self._ports = address_in(self._network)[1], plan.host(self._node).ports
        return CourierKeeper(
            peer, self._paths, self._resources, plan.job.health, start=self._start,
            log=lambda kind, message, cause: self._outbox.log(kind, message, cause, name),
        )  # fmt: skip

    def _start(self, name: str, attempt: int, socket: Path, log: Path) -> Started:
        """Forked, which takes a fifth of the time; a program of its own where the MPI library needs its launcher."""
        from runtime.control.forked_courier import ForkedCourier, courier_order
        from runtime.courier.starting import start_courier
        from runtime.courier.transport import rdma_devices

        rdma, abi = bool(rdma_devices()), _setting(MPI_ABI_VARIABLE)
        if mpiexec := _setting(MPIEXEC_VARIABLE):
            return start_courier(
                socket, log, interface=self._interface, ports=self._ports, rdma=rdma, abi=abi, mpiexec=mpiexec
            )
        order = courier_order(socket, log, self._interface, self._ports, rdma=rdma, abi=abi)
        self._forked[name] = ForkedCourier(self._forks, name, attempt, order)
        return self._forked[name]

    def told(self, message: Forked | ForkFailed | Gone) -> None:
        """What the forkserver says of a courier; of one that was followed by another it is too late."""
        courier = self._forked.get(message.component)
        if courier is not None and courier.attempt == message.attempt:
            courier.told(message)

    def obey(self, order: OpenLink | JoinLink | ResetLink) -> None:
        """An order about a link that this node does not have (any more) is not for it."""
        keeper = self._keepers.get(order.peer)
        match order:
            case _ if keeper is None:
                return
            case OpenLink(serial=serial):
                keeper.open(serial)
            case JoinLink(serial=serial, port=port):
                keeper.join(serial, port)
            case ResetLink(serial=serial):
                keeper.reset(serial)

    def descriptors(self) -> list[int]:
        """Readable when there is something to `hear`."""
        return [descriptor for keeper in self._all() for descriptor in keeper.descriptors()]

    def hear(self, ready: set[int]) -> None:
        """Take what couriers have said."""
        for keeper in self._all():
            if not ready.isdisjoint(keeper.descriptors()):
                keeper.hear()

    def look(self, now: float) -> None:
        """Once a period."""
        for keeper in self._all():
            keeper.look(now)
        for keeper in [keeper for keeper in self._leaving if keeper.over]:
            keeper.close()
            self._leaving.remove(keeper)

    @property
    def keepers(self) -> tuple[CourierKeeper, ...]:
        """Those of the present plan."""
        return tuple(self._keepers.values())

    def reports(self) -> tuple[LinkReport, ...]:
        """One for each link."""
        return tuple(keeper.report() for keeper in self._keepers.values())

    def stop(self, reason: str) -> None:
        """The run ends."""
        for keeper in self._all():
            keeper.stop(reason)

    def see_out(self, timeout_s: float) -> None:
        """Wait until all couriers have left; end those that do not."""
        deadline = time.monotonic() + timeout_s
        for keeper in self._keepers.values():
            keeper.leave()
            self._leaving.append(keeper)
        self._keepers.clear()
        while self._leaving:
            now = time.monotonic()
            if now > deadline:
                for keeper in self._leaving:
                    keeper.kill()
            self.look(now)
            time.sleep(_LOOK_EVERY_S)

    def _all(self) -> Iterator[CourierKeeper]:
        yield from self._keepers.values()
        yield from self._leaving


def _setting(variable: str) -> str | None:
    written = os.environ.get(variable)
    return os.path.expanduser(written) if written else None  # noqa: PTH111 - it need not be a path at all
