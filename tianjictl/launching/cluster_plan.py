"""From a job and an inventory to a plan over its hosts: looks at every host, chooses counts, spreads them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.errors import UsageProblem
from tianjictl.hosts.local import LOCALHOST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from runtime.contract.job import Job
    from runtime.contract.plan import Plan
    from tianjictl.hosts.types import Host, Inventory
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
) -> Plan:
    """Plan `job` over the hosts of `connections`, which are those of the inventory that may be used.

    The first host of the plan is the head. Raises Infeasible if no placement exists, Unreachable if a host cannot be
    looked at, and UsageProblem if two names are one machine, a host has no address in its network, the environment
    cannot be made, or the job's sizes contradict each other.
    """
    raise NotImplementedError
