"""From a job and an inventory to a plan over its hosts: looks at every host, chooses counts, spreads them out."""

from __future__ import annotations

import sys
from dataclasses import replace
from ipaddress import ip_network
from typing import TYPE_CHECKING

from runtime.contract.plan import Fingerprints, HostPlan
from runtime.contract.sizes import SizesError
from runtime.contract.states import Role
from tianjictl.errors import UsageProblem
from tianjictl.hosts.local import LOCALHOST
from tianjictl.launching.local_plan import refuse_what_looks_frozen, with_counts
from tianjictl.planning.build import make_plan
from tianjictl.planning.stating import node_of, smoothed, state
from tianjictl.profiling.calibration import learnt_from_runs
from tianjictl.profiling.known_links import known_mb_per_s
from tianjictl.profiling.local import measured_sizes
from tianjictl.profiling.networks import choose_networks
from tianjictl.profiling.nodes import beside, limited, look_at
from tianjictl.profiling.probing import EnvProbe
from tianjictl.profiling.profile import digest_of, inventory_digest, job_digest, profile_key
from tianjictl.profiling.rates import known_rates
from tianjictl.profiling.remote_facts import node_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
    from runtime.contract.plan import Plan
    from runtime.contract.rates import HostRates
    from tianjictl.hosts.types import Host, Inventory
    from tianjictl.planning.node import Node
    from tianjictl.planning.problem import Problem
    from tianjictl.planning.solution import Solution
    from tianjictl.profiling.remote_facts import NodeFacts
    from tianjictl.remote.base import Connection


def is_this_machine(inventory: Inventory) -> bool:
    """Whether the inventory says no more than `localhost`, so that nothing of many hosts is needed."""
    if len(inventory.hosts) != 1:
        return False
    (host,) = inventory.hosts
    limits = (host.max_cores, host.network, host.ports, host.python, host.workdir)
    return host.connection == "local" and host.name == LOCALHOST and not any(limits) and not host.reserve_cores


def head_of(hosts: Sequence[Host], wanted: str | None = None) -> Host:
    """The host that runs the coordinator: `wanted`, else the first on this machine that may hold a learner, else the
    first that may. UsageProblem where there is none.
    """
    able = [host for host in hosts if not host.roles or "learner" in host.roles]
    if wanted is not None:
        for host in able:
            if host.name == wanted:
                return host
        known = any(host.name == wanted for host in hosts)
        why = "its tianji_roles allow no learner" if known else "there is no such host"
        raise UsageProblem(f"{wanted} cannot be the head: {why}", hint=f"one of {', '.join(h.name for h in able)}")
    if not able:
        raise UsageProblem("no host of the inventory may hold a learner", hint="add learner to tianji_roles of one")
    return next((host for host in able if host.connection == "local"), able[0])


def plan_for(
    inventory: Inventory,
    connections: Mapping[str, Connection],
    job: Job,
    *,
    shape: str | None = None,
    oversubscribe: bool = False,
    profile_path: Path | None = None,
    head: str | None = None,
    progress: Callable[[str], None] = lambda _line: None,
    seen: Callable[[Sequence[NodeFacts]], None] = lambda _nodes: None,
    decided: Callable[[Problem, Solution], None] = lambda _problem, _solution: None,
) -> Plan:
    """Plan `job` over the hosts of `connections`, which are those of the inventory that may be used.

    The first host of the plan is the head. `seen` is told what was found before anything is planned with it, `decided`
    what an explanation needs.

    Raises Infeasible if no placement exists, Unreachable if a host cannot be looked at, and UsageProblem if two names
    are one machine, a host has no address in its network, the environment cannot be made, or the job's sizes
    contradict each other.
    """
    job = with_counts(job, shape, oversubscribe=oversubscribe)
    hosts = [host for host in inventory.hosts if host.name in connections]
    first = head_of(hosts, head)
    ordered = [first, *(host for host in hosts if host is not first)]
    try:
        with EnvProbe(job.env) as probe:
            progress(f"looking at {len(ordered)} host{'' if len(ordered) == 1 else 's'}")
            nodes = look_at(ordered, connections)
            seen(nodes)
            return plan_of(nodes, job, probe.spec(progress), profile_path=profile_path, decided=decided)
    except SizesError as error:
        raise UsageProblem(error.message, hint=error.hint) from error


def plan_of(
    nodes: Sequence[NodeFacts],
    job: Job,
    env: EnvSpec,
    *,
    profile_path: Path | None = None,
    decided: Callable[[Problem, Solution], None] = lambda _problem, _solution: None,
) -> Plan:
    """The plan over hosts that have been looked at, the head first; raises as `plan_for` does, and SizesError."""
    networks, notes = choose_networks(nodes, nodes[0].host.name)
    rates = known_rates(nodes, job, env, profile_path)
    prints = Fingerprints(job=job_digest(job), inventory=nodes_digest(nodes, networks), profile=rates.digest)
    stated = [host_plan(node, networks[node.host.name]) for node in nodes]
    keys = {node.host.name: profile_key(node.facts, job, measured_sizes(job, env)) for node in nodes if rates.reports}
    learnt = learnt_from_runs(rates.reports, keys, rates.measured_at)
    links = known_mb_per_s(nodes, networks, profile_path) if len(nodes) > 1 else {}
    usual = {name: speeds.at() for name, speeds in learnt.speeds.items()}
    nodes_at = (lambda sizes: _as_planned(nodes, stated, learnt.at(sizes), links)) if learnt.scales else None
    problem = state(job, env, _as_planned(nodes, stated, usual, links), nodes_at)
    told = (*notes, *rates.notes, *learnt.notes)
    plan = make_plan(
        problem, job, env, prints, hosts=stated, rates_at=learnt.at, profile_keys=keys, notes=told, decided=decided
    )
    refuse_what_looks_frozen(plan)
    return plan


def _as_planned(
    nodes: Sequence[NodeFacts],
    stated: Sequence[HostPlan],
    known: Mapping[str, HostRates],
    speeds: Mapping[str, float],
) -> tuple[Node, ...]:
    """Hosts as the planner sees them. Networks carry what was measured, else what their driver says."""
    seen = []
    for node, told in zip(nodes, stated, strict=True):
        usual = link_speed(node, told.network) if len(nodes) > 1 else None
        limits = told.model_copy(update={"mb_per_s": speeds.get(node.host.name, usual)})
        seen.append(node_of(node.facts, known.get(node.host.name), limits))
    return smoothed(seen, [node.facts.cpu.model for node in nodes])


def host_plan(node: NodeFacts, network: str | None) -> HostPlan:
    """What a plan says of a host before anything is placed there."""
    host = node.host
    return HostPlan(
        name=host.name,
        cores=node.facts.cpu.usable,
        roles=tuple(Role(role) for role in host.roles),
        network=network,
        ports=host.ports,
        wan=host.link == "wan",
    )


def joining_host(host: Host, connection: Connection, plan: Plan, others: Sequence[Host]) -> HostPlan:
    """What a living run's plan must say of a host that joins it; `others` are the hosts of its nodes.

    A node more on this machine gets the cores that no other node of the run has there, or else a part of all of them.
    UsageProblem where the host has no address in the run's network.
    """
    found = node_facts(connection, host, operator_python=sys.executable)
    if host.connection == "local":
        here = {other.name for other in others if other.connection == "local"} - {host.name}
        found = replace(found, facts=beside(found.facts, [set(n.cores) for n in plan.hosts if n.name in here]))
    found = limited(found)
    network = host.network or _network_towards(found, plan)
    inside = network is None or any(address.inside(network) for address in found.network.addresses)
    if not inside:
        has = ", ".join(map(str, found.network.addresses)) or "no address"
        why = f"{host.name} has no address in {network}, the run's network: it has {has}"
        raise UsageProblem(why, hint=f"set tianji_network of {host.name}")
    return host_plan(found, network)


def _network_towards(node: NodeFacts, plan: Plan) -> str | None:
    """The head's network if the host has an address there, else that from which the route leads to it."""
    there = plan.host(plan.head).network
    if there is None or any(address.inside(there) for address in node.network.addresses):
        return there
    way = node.network.towards(str(ip_network(there).network_address))
    return there if way is None or way.loopback else way.network


def nodes_digest(nodes: Sequence[NodeFacts], networks: Mapping[str, str | None]) -> str:
    """Fingerprint of every host, by name: what it has, and what the inventory says of it."""

    def digest(node: NodeFacts) -> str:
        host = node.host
        said = [host.roles, host.ports, host.link, networks[host.name], node.identity]
        return digest_of([inventory_digest(node.facts), said])[:12]

    return " ".join(f"{node.host.name}={digest(node)}" for node in nodes)


def link_speed(node: NodeFacts, network: str | None) -> float | None:
    """MB/s of the interface in a network; none where the driver does not tell."""
    if network is None:
        return None
    names = {address.interface for address in node.network.addresses if address.inside(network)}
    speeds = [nic.mbit_per_s for nic in node.facts.nics if nic.name in names and nic.mbit_per_s is not None]
    return min(speeds) / 8 if speeds else None
