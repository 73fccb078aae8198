"""Between hosts: the address each has in the run's network, its own name, ports, and what carries the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.doctor.finding import Check, Verdict, fail, info, ok, skip, warn
from tianjictl.doctor.situation import on, setting

if TYPE_CHECKING:
    from tianjictl.doctor.situation import Examined, Road, Situation
    from tianjictl.profiling.facts.network import Address

FEW_PORTS = 8  #: for each node its agent or coordinator, and a courier for each link
NARROW_MTU = 1280  #: below what every network carries: a tunnel in a tunnel
_ALONE = "one machine: nothing goes over a network"


def _name(one: Examined, situation: Situation) -> Verdict:
    if not situation.several:
        return skip(_ALONE)
    names = one.facts.names
    if not names.hostname:
        return skip("the host does not say what it is called")
    if not names.resolves_to:
        mend = on(one, f"echo '{_own(one, situation) or 'ADDRESS'} {names.hostname}' | sudo tee -a /etc/hosts")
        return info(f"its own name {names.hostname} leads nowhere on it", mend)
    told = f"its own name {names.hostname} leads to {', '.join(names.resolves_to)} on it"
    if not names.resolves_to_loopback:
        return ok(told)
    new = f"{_own(one, situation) or 'ADDRESS'} {names.hostname}"
    mend = on(
        one, f"sudo sed -i '/^127\\..*\\b{names.hostname}\\b/d' /etc/hosts && echo '{new}' | sudo tee -a /etc/hosts"
    )
    if one.host.mpiexec or one.host.mpi_abi:
        return fail(f"{told}, and the site's MPI tells others this name", mend)
    return warn(told, mend)


def _address(one: Examined, situation: Situation) -> Verdict:
    if not situation.several and one.host.network is None:
        return skip(_ALONE)
    assert one.node is not None
    has = ", ".join(map(str, one.node.network.addresses)) or "none"
    network = situation.networks.get(one.name, one.host.network)
    if network is None:
        evidence = f"no route leads to the head; its addresses: {has}"
        return fail(evidence, setting(one, "tianji_network", "the network that all hosts share"))
    inside = [address for address in one.node.network.addresses if address.inside(network)]
    if not inside:
        file = f" -i {situation.inventory}" if situation.inventory else ""
        mend = f"tianjictl inventory show {one.name} --origin{file} says where {network} is set"
        return fail(f"no address in {network}; its addresses: {has}", mend)
    return _judged(one, situation, network, inside[0])


def _judged(one: Examined, situation: Situation, network: str, own: Address) -> Verdict:
    told = f"{own} in {network}"
    others = [each for each in situation.there if each.name != one.name and _own(each, situation) == own.address]
    if others and not own.loopback:
        names = ", ".join(each.name for each in others)
        evidence = f"{told}, and {names} has the same: a bridge that is on every host?"
        return fail(evidence, setting(one, "tianji_network", "a network in which every host has its own address"))
    nic = next((nic for nic in one.facts.nics if nic.name == own.interface), None)
    if nic is not None and nic.state == "down":
        return fail(f"{told}, and {nic.name} is down", on(one, f"sudo ip link set {nic.name} up"))
    largest = {name: mtu for name, mtu in _mtus(situation).items() if mtu}
    if nic is not None and nic.mtu and (nic.mtu < NARROW_MTU or nic.mtu != min(largest.values(), default=nic.mtu)):
        listed = ", ".join(f"{name} {mtu}" for name, mtu in largest.items())
        return warn(
            f"{told}; largest packets differ or are small: {listed}: large ones vanish where a switch does not know",
            on(one, f"sudo ip link set {nic.name} mtu {min(largest.values())}"),
        )
    if one.host.network is None:
        return info(f"{told}, as the route to the head leads", setting(one, "tianji_network", network))
    return ok(told)


def _ports(one: Examined, situation: Situation) -> Verdict:
    if not situation.several:
        return skip(_ALONE)
    if situation.roads is None:
        return skip("nobody has tried")
    mine = [road for road in situation.roads if one.name in (road.source, road.target)]
    if not mine:
        return skip("there was no other host to try with")
    return _roads(one, mine)


def _roads(one: Examined, roads: list[Road]) -> Verdict:
    closed = [road for road in roads if road.took_s is None]
    allowed = "any port" if one.host.ports is None else f"ports {one.host.ports[0]}-{one.host.ports[1]}"
    if closed:
        told = "; ".join(f"{road.source} to {road.target} {road.address}: {road.problem}" for road in closed)
        first = closed[0]
        if not first.address:
            return fail(told, setting(one, "tianji_ports", "a range of free ports, such as 46000-46100"))
        ports = first.address.rpartition(":")[2] if one.host.ports is None else ":".join(map(str, one.host.ports))
        mend = f"on {first.target}, let {first.source} in: sudo ufw allow proto tcp to any port {ports}"
        fixed = "" if one.host.ports else ", with tianji_ports in the inventory naming the range that is open"
        return fail(told, mend + fixed)
    slowest = max(road.took_s or 0.0 for road in roads)
    told = f"{allowed}, both ways in {slowest * 1e3:.0f} ms"
    if one.host.ports is not None and one.host.ports[1] - one.host.ports[0] + 1 < FEW_PORTS:
        return warn(f"{told}, but there are few of them", setting(one, "tianji_ports", "a range of 100 ports or so"))
    return ok(told)


def _rdma(one: Examined, _situation: Situation) -> Verdict:
    ports = one.facts.rdma
    if not ports:
        return ok("there is none; TCP is used")
    told = ", ".join(
        f"{port.device} port {port.port} {port.state or 'silent'}"
        + (f" {port.gbit_per_s:g} Gbit/s" if port.gbit_per_s else "")
        for port in ports
    )
    if not any(port.active for port in ports):
        return warn(f"{told}: no port is active", on(one, "ibstat; rdma link"))
    return info(told)


def _provider(one: Examined, situation: Situation) -> Verdict:
    fabric = one.facts.fabric
    told = f"{fabric.chosen}: {fabric.why}" if fabric.why else fabric.chosen
    chosen = {each.facts.fabric.chosen for each in situation.there}
    if situation.several and len(chosen) > 1:
        listed = ", ".join(f"{each.name} {each.facts.fabric.chosen}" for each in situation.there)
        return fail(f"{told}; hosts that take different ones do not meet: {listed}", _same_provider(one))
    if fabric.chosen == "sockets":
        return fail(f"{told}: it ends the process when a peer dies", "unset FI_PROVIDER")
    if fabric.chosen == "tcp" and any(port.active for port in one.facts.rdma):
        return warn(f"{told}: the RDMA device is left unused", on(one, "fi_info -l; ls -l /dev/infiniband"))
    return ok(told)


def _same_provider(one: Examined) -> str:
    return on(one, "grep -n FI_PROVIDER ~/.bashrc ~/.profile /etc/environment; fi_info -l")


def _mtus(situation: Situation) -> dict[str, int | None]:
    """The largest packet of each host on the run's network."""
    found = {}
    for each in situation.there:
        own = _interface(each, situation)
        found[each.name] = next((nic.mtu for nic in each.facts.nics if own and nic.name == own), None)
    return found


def _own(one: Examined, situation: Situation) -> str | None:
    """The address that a host would take."""
    address = _chosen(one, situation)
    return None if address is None else address.address


def _interface(one: Examined, situation: Situation) -> str | None:
    address = _chosen(one, situation)
    return None if address is None else address.interface


def _chosen(one: Examined, situation: Situation) -> Address | None:
    network = situation.networks.get(one.name, one.host.network)
    if network is None or one.node is None:
        return None
    return next((address for address in one.node.network.addresses if address.inside(network)), None)


CHECKS = (
    Check("network.name", "MPI libraries with launchers of their own tell other hosts this name, and wait for ever",
          _name, quick=True),
    Check("network.address", "training data and control messages go to this address", _address, quick=True),
    Check("network.ports", "agents call the coordinator, and couriers call each other, in this range", _ports),
    Check("rdma.devices", "RDMA carries data between hosts without their cores", _rdma, quick=True),
    Check("fabric.provider", "what libfabric chooses decides how fast links are, and whether they survive a peer",
          _provider, quick=True),
)  # fmt: skip
