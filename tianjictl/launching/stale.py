"""Whether a saved plan may still be used: its hosts, its job and its profile must be what it was made from."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.plan import Origin
from tianjictl.errors import PlanStale, UsageProblem
from tianjictl.launching.cluster_plan import nodes_digest
from tianjictl.profiling import store
from tianjictl.profiling.local import local_facts, measured_sizes
from tianjictl.profiling.networks import choose_networks
from tianjictl.profiling.nodes import look_at
from tianjictl.profiling.profile import inventory_digest, job_digest, profile_key
from tianjictl.profiling.rates import known_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runtime.contract.plan import Plan
    from tianjictl.hosts.types import Inventory
    from tianjictl.profiling.facts.host import HostFacts
    from tianjictl.profiling.profile import ClusterProfile
    from tianjictl.profiling.remote_facts import NodeFacts
    from tianjictl.remote.base import Connection


def with_origin(plan: Plan, job: Path | None, profile: Path | None, inventory: str | None = None) -> Plan:
    """The plan as it is saved: with the names of the files it was made from."""
    origin = Origin(
        job_file=None if job is None else str(job.absolute()),
        job_sha256=None if job is None else _digest(job),
        profile_file=None if profile is None else str(profile.absolute()),
        inventory_file=None if inventory is None else str(Path(inventory).absolute()),
    )
    return plan.model_copy(update={"origin": origin})


def check_still_valid(plan: Plan, seen: Callable[[HostFacts], None] = lambda _facts: None) -> None:
    """Raise PlanStale where this machine, the job or the profile is not what the plan was made from.

    A job file that is gone is no objection: the plan holds the whole job.
    """
    facts = local_facts()
    seen(facts)
    if plan.fingerprints.inventory != inventory_digest(facts):
        raise _stale(plan, "this machine is not what the plan was made for: its CPUs, quota or memory limit differ")
    _check_job(plan)
    profile = _profile_now(plan, facts)
    if plan.fingerprints.profile is not None and profile is not None and profile.digest != plan.fingerprints.profile:
        raise _stale(plan, f"the profile of {facts.name} was measured again since the plan was made from it")


def check_hosts_still_valid(
    plan: Plan,
    inventory: Inventory,
    connections: Mapping[str, Connection],
    seen: Callable[[Sequence[NodeFacts]], None] = lambda _nodes: None,
) -> None:
    """The same for a plan over the hosts of an inventory: every host that differs is named."""
    gone = [host.name for host in plan.hosts if inventory.find(host.name) is None]
    if gone:
        raise _stale(plan, f"{inventory.file or 'the inventory'} no longer has {', '.join(gone)}")
    hosts = [host for planned in plan.hosts if (host := inventory.find(planned.name)) is not None]
    nodes = look_at(hosts, connections)
    seen(nodes)
    networks, _ = choose_networks(nodes, plan.head)
    now, then = nodes_digest(nodes, networks).split(), plan.fingerprints.inventory.split()
    other = [told.partition("=")[0] for told in now if told not in then]
    if other or len(now) != len(then):
        who = f"{', '.join(other)}: not" if other else "its hosts are not"
        raise _stale(plan, f"{who} what the plan was made for: CPUs, quota, memory or inventory settings differ")
    _check_job(plan)
    file = None if plan.origin.profile_file is None else Path(plan.origin.profile_file)
    if file is not None and not file.exists():
        return
    rates = known_rates(nodes, plan.job, plan.env, file)
    if plan.fingerprints.profile is not None and rates.digest not in (None, plan.fingerprints.profile):
        raise _stale(plan, "its hosts were measured again since the plan was made")


def _check_job(plan: Plan) -> None:
    if plan.fingerprints.job != job_digest(plan.job):
        raise _stale(plan, "the job in the plan is not the one that was solved: it was edited afterwards")
    file = plan.origin.job_file
    now = None if file is None else _digest(Path(file))
    if now is not None and now != plan.origin.job_sha256:
        raise _stale(plan, f"{file} has changed since the plan was made from it")


def _profile_now(plan: Plan, facts: HostFacts) -> ClusterProfile | None:
    if plan.origin.profile_file is None:
        return store.cached(profile_key(facts, plan.job, measured_sizes(plan.job, plan.env)))
    try:
        return store.load(Path(plan.origin.profile_file))
    except UsageProblem:
        return None


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _stale(plan: Plan, why: str) -> PlanStale:
    job = shlex.quote(plan.origin.job_file) if plan.origin.job_file else "JOB"
    hosts = f" -i {shlex.quote(plan.origin.inventory_file)}" if plan.origin.inventory_file else ""
    return PlanStale(why, hint=f"make the plan again: tianjictl plan {job}{hosts} -o plan.json")
