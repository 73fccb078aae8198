"""Which libfabric provider MPI would take on a host, as far as devices and what is installed tell."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.contract.model import Document
from tianjictl.profiling.facts.rdma import RdmaPort

LISTING = "fi_info -l"
#: Driver of a device → providers that speak to it directly, the best first; every other device is for verbs.
_BY_DRIVER = {
    "efa": ("efa",),
    "hfi1": ("opx", "psm2"),
    "qib": ("psm",),
    "ib_qib": ("psm",),
    "cxi": ("cxi",),
    "cxi_ss1": ("cxi",),
}


class FabricFacts(Document):
    """`chosen` is tcp, verbs, efa, psm2, opx or cxi; `why` says so in words."""

    chosen: str = "tcp"
    why: str = ""
    providers: tuple[str, ...] = ()  #: those of the host's libfabric; empty where no program lists them


def parse_providers(listing: str) -> tuple[str, ...]:
    """Names of `fi_info -l`, which indents everything else, or of the lines `provider:` of plain `fi_info`."""
    names = []
    for line in listing.splitlines():
        key, colon, value = line.partition(":")
        if key.strip() == "provider":
            names.append(value.strip())
        elif colon and key and not key[0].isspace() and not value.strip():
            names.append(key.strip())
    return tuple(dict.fromkeys(name for name in names if not name.startswith("ofi_hook")))  # hooks carry nothing


def choose(ports: Sequence[RdmaPort], providers: Sequence[str], *, openable: bool, forced: str = "") -> FabricFacts:
    """The provider that would be used.

    `openable`: this user may open the devices in /dev/infiniband. `forced`: FI_PROVIDER of the host's environment.
    """
    known = tuple(providers)
    if forced:
        return FabricFacts(chosen=forced.split(",")[0].split(";")[0], why=f"FI_PROVIDER is {forced}", providers=known)
    if not ports:
        return FabricFacts(why="there is no RDMA device", providers=known)
    active = [port for port in ports if port.active]
    if not active:
        told = ", ".join(f"{port.device} port {port.port} is {port.state or 'silent'}" for port in ports)
        return FabricFacts(why=f"no RDMA port is active: {told}", providers=known)
    port = max(active, key=lambda port: (port.driver in _BY_DRIVER, port.gbit_per_s or 0.0))
    where = f"{port.device} port {port.port} is active ({port.layer or 'unknown link layer'})"
    if not openable:
        return FabricFacts(why=f"{where}, but this user may not open /dev/infiniband/uverbs*", providers=known)
    wanted = _BY_DRIVER.get(port.driver or "", ("verbs",))
    have = {name.split(";")[0] for name in known}
    chosen = next((name for name in wanted if not have or name in have), None)
    if chosen is None:
        return FabricFacts(why=f"{where}, but libfabric has no provider {' or '.join(wanted)}", providers=known)
    return FabricFacts(chosen=chosen, why=where, providers=known)
