"""Where on the networks of its machine a node listens."""

from __future__ import annotations

import ipaddress
import socket

LOOPBACK = ("127.0.0.1", "lo")


class NetworkError(Exception):
    """This machine has no address in the network that the run shall use."""


def address_in(network: str | None) -> tuple[str, str]:
    """This machine's address in a network such as `10.0.0.0/16`, and the device that has it; loopback where none.

    The lowest address where there are several. NetworkError where there is none, or where that is no network.
    """
    if network is None:
        return LOOPBACK
    try:
        wanted = ipaddress.ip_network(network, strict=False)
    except ValueError as error:
        raise NetworkError(f"{network!r} is no network such as 10.0.0.0/16: {error}") from error
    found = _addresses()
    inside = [(address, device) for address, device in found if address in wanted]
    if not inside:
        has = ", ".join(f"{address} ({device})" for address, device in found) or "none at all"
        raise NetworkError(f"this machine has no address in {network}; it has {has}")
    address, device = min(inside, key=lambda one: (int(one[0]), one[1]))
    return str(address), device


def _addresses() -> list[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, str]]:
    """Every address of this machine with its device."""
    import psutil  # not on the way of a run that stays on one machine

    return [
        (ipaddress.ip_address(address.address.partition("%")[0]), device)
        for device, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    ]
