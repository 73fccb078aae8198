"""Addresses and routes of a host, from what `ip -o addr` prints, or from /proc where there is no such program. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address, ip_interface, ip_network

Network = IPv4Network | IPv6Network
FILES = ("/proc/net/route", "/proc/net/fib_trie", "/proc/net/if_inet6")
_LINE = re.compile(r"^\d+: (\S+)\s+inet6? (\S+)(?: peer \S+)?(.*)$", re.MULTILINE)
_LOCAL = re.compile(r"\|-- (\S+)\s+/32 host LOCAL")


@dataclass(frozen=True, slots=True)
class Address:
    """One address of one interface, with the network that is reached through it."""

    interface: str
    address: str
    network: str  #: CIDR

    @property
    def loopback(self) -> bool:
        return ip_address(self.address).is_loopback

    def inside(self, network: str) -> bool:
        """Whether the address lies in a CIDR."""
        return ip_address(self.address) in ip_network(network)

    def __str__(self) -> str:
        return f"{self.address} ({self.interface})"


@dataclass(frozen=True, slots=True)
class Route:
    """One line of the IPv4 routing table."""

    interface: str
    target: IPv4Network
    metric: int


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """Every address of a host that others could be told, and its IPv4 routes."""

    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()

    def towards(self, target: str) -> Address | None:
        """The own address from which `target` is reached, as the routes say; none where they do not."""
        wanted = ip_address(target)
        for own in self.addresses:
            if ip_address(own.address) == wanted:
                return own
        near = [own for own in self.addresses if wanted in ip_network(own.network)]
        if near or not isinstance(wanted, IPv4Address):
            return near[0] if near else None
        fitting = [route for route in self.routes if wanted in route.target]
        if not fitting:
            return None
        best = min(fitting, key=lambda route: (-route.target.prefixlen, route.metric))
        return next((a for a in self.addresses if a.interface == best.interface and "." in a.address), None)


def understand(listing: str | None, files: Mapping[str, str]) -> NetworkFacts:
    """Addresses from the listing of `ip`, or of /proc where there is none; link-local ones are left out."""
    routes = tuple(_routes(files.get("/proc/net/route", "")))
    found = _listed(listing) if listing else [*_from_trie(files.get("/proc/net/fib_trie", ""), routes), *_six(files)]
    kept = [address for address in found if not ip_address(address.address).is_link_local]
    return NetworkFacts(tuple(dict.fromkeys(kept)), routes)


def _listed(text: str) -> list[Address]:
    made = []
    for name, written, rest in _LINE.findall(text):
        if "tentative" in rest or "deprecated" in rest:
            continue
        try:
            made.append(_address(name.partition("@")[0], written))
        except ValueError:
            continue  # a form that this program has not seen: the host has its other addresses
    return made


def _routes(text: str) -> Iterable[Route]:
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8 or not int(fields[3], 16) & 1:  # 1: the route is up
            continue
        target, mask = (int.from_bytes(bytes.fromhex(fields[i]), "little") for i in (1, 7))
        yield Route(fields[0], IPv4Network((target, mask.bit_count())), int(fields[6]))


def _from_trie(text: str, routes: Iterable[Route]) -> list[Address]:
    """Own addresses of the trie; interface and network are those of the route to each."""
    made = []
    for written in dict.fromkeys(_LOCAL.findall(text)):
        if ip_address(written).is_loopback:
            made.append(_address("lo", f"{written}/8"))
            continue
        fitting = [route for route in routes if ip_address(written) in route.target and route.target.prefixlen]
        if fitting:
            best = max(fitting, key=lambda route: route.target.prefixlen)
            made.append(Address(best.interface, written, str(best.target)))
    return made


def _six(files: Mapping[str, str]) -> list[Address]:
    lines = [line.split() for line in files.get("/proc/net/if_inet6", "").splitlines()]
    return [
        _address(fields[5], f"{ip_address(bytes.fromhex(fields[0]))}/{int(fields[2], 16)}")
        for fields in lines
        if len(fields) == 6
    ]


def _address(interface: str, written: str) -> Address:
    known = ip_interface(written)
    return Address(interface, str(known.ip), str(known.network))
