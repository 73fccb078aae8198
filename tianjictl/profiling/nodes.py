"""What the hosts of an inventory have for a run: looked at all at once, told apart, and cut to what may be used."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.contract.shape import share
from tianjictl.errors import Finding, TianjiError, Unreachable, UsageProblem
from tianjictl.profiling.remote_facts import NodeFacts, node_facts
from tianjictl.remote.fanout import Err, Limits, Ok, fan_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from tianjictl.hosts.types import Host
    from tianjictl.profiling.facts.cpus import Core, CpuFacts
    from tianjictl.profiling.facts.host import HostFacts
    from tianjictl.remote.base import Connection


def look_at(
    hosts: Iterable[Host], connections: Mapping[str, Connection], *, devices: bool = False
) -> tuple[NodeFacts, ...]:
    """What there is for a run on each host, in the order of `hosts`.

    The nodes of this machine (local connections) share it. Unreachable names every host that gives no facts;
    UsageProblem where two names are one machine, or where an inventory leaves a host no core.
    """
    wanted = {host.name: host for host in hosts}
    outcomes = fan_out(
        wanted,
        lambda host: node_facts(connections[host.name], host, operator_python=sys.executable, devices=devices),
        limits=Limits(tries=2),
    )
    failed = [came.error for came in outcomes.values() if isinstance(came, Err)]
    if failed:
        kind = Unreachable if any(isinstance(error, Unreachable) for error in failed) else TianjiError
        raise kind.listing([finding for error in failed for finding in error.findings()])
    found = [came.value for came in outcomes.values() if isinstance(came, Ok)]
    refuse_one_machine_with_two_names(found)
    return tuple(limited(node) for node in shared_out(found))


def refuse_one_machine_with_two_names(nodes: Sequence[NodeFacts]) -> None:
    """UsageProblem for hosts that are one machine, unless all of them are this one, by a local connection."""
    by_machine: dict[str, list[Host]] = {}
    for node in nodes:
        by_machine.setdefault(node.identity, []).append(node.host)
    findings = []
    for hosts in by_machine.values():
        if len(hosts) == 1 or all(host.connection == "local" for host in hosts):
            continue
        told = " and ".join(f"{host.name} ({_way(host)})" for host in hosts)
        findings.append(Finding(f"hosts {told} are one machine", "leave all but one of them out of the inventory"))
    if findings:
        raise UsageProblem.listing(findings)


def shared_out(nodes: Sequence[NodeFacts]) -> list[NodeFacts]:
    """The nodes, each of those on this machine with its part of it: of cores, of their time and of memory.

    The parts have no core in common unless there are fewer cores than nodes.
    """
    mine = [node.host.name for node in nodes if node.host.connection == "local"]
    if len(mine) < 2:
        return list(nodes)
    return [
        replace(node, facts=part_of(node.facts, mine.index(node.host.name), len(mine)))
        if node.host.name in mine
        else node
        for node in nodes
    ]


def part_of(facts: HostFacts, index: int, parts: int) -> HostFacts:
    """One of `parts` even parts of a machine."""
    cpu = facts.cpu
    cores = sorted(cpu.usable_cores, key=lambda core: (core.numa, core.package, core.core, core.thread))
    if len(cores) < parts:
        mine = [cores[index % len(cores)]]
    else:
        first = sum(share(len(cores), parts, before) for before in range(index))
        mine = cores[first : first + share(len(cores), parts, index)]
    part = cpu.capacity * len(mine) / max(len(cores), parts)
    memory = facts.memory.model_copy(update={"limit_bytes": facts.memory.limit_bytes // parts})
    return facts.model_copy(update={"cpu": _only(cpu, mine, part), "memory": memory})


def beside(facts: HostFacts, taken: Sequence[AbstractSet[int]]) -> HostFacts:
    """What a machine has for one node more, where nodes with these CPUs are there: the rest, or a part like theirs."""
    free = [core for core in facts.cpu.usable_cores if not any(core.cpu in cpus for cpus in taken)]
    if not taken:
        return facts
    if not free:
        return part_of(facts, len(taken), len(taken) + 1)
    share_of_time = facts.cpu.capacity * len(free) / len(facts.cpu.usable)
    return facts.model_copy(update={"cpu": _only(facts.cpu, free, share_of_time)})


def limited(node: NodeFacts) -> NodeFacts:
    """The node without the cores that its inventory keeps for others; UsageProblem where none is left."""
    host, cpu = node.host, node.facts.cpu
    left = len(cpu.usable) - host.reserve_cores
    if left < 1:
        raise UsageProblem(
            f"{host.name}: tianji_reserve_cores is {host.reserve_cores}, and it has {len(cpu.usable)} usable",
            hint=f"tianji_reserve_cores: {len(cpu.usable) - 1} at most",
        )
    count = left if host.max_cores is None else min(left, host.max_cores)
    if count == len(cpu.usable):
        return node
    kept = sorted(cpu.usable_cores, key=lambda core: (core.thread, core.numa, core.cpu))[:count]
    capacity = min(cpu.capacity - host.reserve_cores, float(count))
    return replace(node, facts=node.facts.model_copy(update={"cpu": _only(cpu, kept, max(capacity, 0.1))}))


def _only(cpu: CpuFacts, cores: Sequence[Core], capacity: float) -> CpuFacts:
    return cpu.model_copy(update={"usable": tuple(sorted(core.cpu for core in cores)), "capacity": capacity})


def _way(host: Host) -> str:
    if host.connection == "local":
        return "this machine"
    return host.address if host.port is None else f"{host.address} port {host.port}"
