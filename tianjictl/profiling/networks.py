"""Which network each host takes for training data and control messages: as the inventory says, else as routes lead."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

from tianjictl.errors import Finding, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tianjictl.profiling.facts.network import Address
    from tianjictl.profiling.remote_facts import NodeFacts

LOOPBACK = "127.0.0.0/8"


def resolve(name: str) -> tuple[str, ...]:
    """Addresses of a name, as this machine knows them; none where it does not."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return tuple(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))


def choose_networks(
    nodes: Sequence[NodeFacts], head: str, resolved: Callable[[str], tuple[str, ...]] = resolve
) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """The network (CIDR) of every node by name, and what should be said about it.

    None for a single node that names none. UsageProblem lists every host that has no address in its network, and
    those for which none can be found.
    """
    _refuse_strangers(nodes)
    said = {node.host.name: node.host.network for node in nodes}
    open_ones = [node for node in nodes if node.host.network is None]
    if len(nodes) == 1 or not open_ones:
        return said, ()
    if all(node.host.connection == "local" for node in nodes):
        return _on_this_machine(said)
    first = next(node for node in nodes if node.host.name == head)
    own = _met_at(first, [node for node in nodes if node is not first], resolved)
    notes, findings = [], []
    for node in open_ones:
        way = own if node is first else None if own is None else node.network.towards(own.address)
        if way is None:
            where = head if own is None else f"{head} at {own.address}"
            has = ", ".join(map(str, node.network.addresses)) or "no address"
            hint = f"set tianji_network of {node.host.name}, or of all hosts"
            findings.append(Finding(f"{node.host.name}: no route leads to {where}; it has {has}", hint))
            continue
        said[node.host.name] = way.network
        notes.append(f"{node.host.name}: no tianji_network; it takes {way.network} by {way.interface}, {way.address}")
    if findings:
        raise UsageProblem.listing(findings)
    return said, tuple(notes)


def _refuse_strangers(nodes: Sequence[NodeFacts]) -> None:
    findings = []
    for node in nodes:
        network, addresses = node.host.network, node.network.addresses
        if network is not None and not any(address.inside(network) for address in addresses):
            has = ", ".join(map(str, addresses)) or "none"
            message = f"{node.host.name}: it has no address in its tianji_network {network}; its addresses: {has}"
            findings.append(
                Finding(message, f"tianjictl inventory show {node.host.name} --origin says where it is set")
            )
    if findings:
        raise UsageProblem.listing(findings)


def _on_this_machine(said: dict[str, str | None]) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """Nodes that are all this machine meet on its loopback, or on the network that some of them name."""
    named = next((network for network in said.values() if network is not None), LOOPBACK)
    without = ", ".join(name for name, network in said.items() if network is None)
    return {name: network or named for name, network in said.items()}, (
        f"{without}: no tianji_network; all on this machine, so {named}",
    )


def _met_at(head: NodeFacts, others: Sequence[NodeFacts], resolved: Callable[[str], tuple[str, ...]]) -> Address | None:
    """The address at which the others meet the head."""
    own = head.network.addresses
    if head.host.network is not None:
        return next(address for address in own if address.inside(head.host.network))
    known = () if head.host.connection == "local" else resolved(head.host.address)
    for address in own:
        if address.address in known and not address.loopback:
            return address
    for node in others:  # the other way round: from where does the head reach them?
        for target in () if node.host.connection == "local" else resolved(node.host.address):
            way = None if ip_address(target).is_loopback else head.network.towards(target)
            if way is not None:
                return way
    outside = [address for address in own if not address.loopback]
    return outside[0] if len(outside) == 1 else None
