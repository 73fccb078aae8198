"""The profile of an inventory: facts of every host, and where a job is given, rates measured on all of them at once,
and then the links between them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import runtime
from runtime.contract.measurement import MeasureReport
from runtime.contract.paths import state_home
from tianjictl.errors import TianjiError
from tianjictl.launching.cluster_plan import head_of
from tianjictl.launching.host_check import check_host, env_modules
from tianjictl.launching.local_plan import progress_line
from tianjictl.launching.measured_links import Ground, measure_links
from tianjictl.launching.staging import runtime_archive, stage, staged_at
from tianjictl.profiling import store
from tianjictl.profiling.local import measure_request, measured_profile, measured_sizes
from tianjictl.profiling.networks import choose_networks
from tianjictl.profiling.probing import last_line
from tianjictl.profiling.profile import ClusterProfile, HostProfile, digest_of, inventory_digest, profile_key
from tianjictl.remote.fanout import Err, Limits, Ok, fan_out

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
    from runtime.contract.measurement import LinkRate, MeasureProgress, MeasureRequest
    from tianjictl.launching.staging import Archive
    from tianjictl.profiling.remote_facts import NodeFacts
    from tianjictl.remote.base import Connection

_MEASURED_WITHIN_S = 300.0
# $1 interpreter, $2 PYTHONPATH, $3 what to measure. Its progress goes to standard error and is not followed from here.
_MEASURE = """export PYTHONPATH="$2" OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
exec "$1" -m runtime measure "$3"
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of measuring several hosts."""

    profile: ClusterProfile
    known: tuple[str, ...] = ()  #: hosts that were measured before, with nothing changed since
    failed: Mapping[str, TianjiError] = field(default_factory=dict)  #: hosts, and links in words


def facts_only(nodes: Sequence[NodeFacts]) -> ClusterProfile:
    """The profile of hosts without any measurement."""
    key = digest_of([inventory_digest(node.facts) for node in nodes])
    hosts = tuple(HostProfile(facts=node.facts) for node in nodes)
    return ClusterProfile(key=key, created_at=datetime.now(UTC), hosts=hosts)


def measure_all(
    nodes: Sequence[NodeFacts],
    connections: Mapping[str, Connection],
    job: Job,
    env: EnvSpec,
    *,
    refresh: bool = False,
    progress: Callable[[str], None] = lambda _line: None,
) -> Measured:
    """Measure every host that is not in the cache, all at once; each is kept there under its own fingerprint.

    A host that cannot be measured is named in `failed` and harms no other.
    """
    sizes, archive, several = measured_sizes(job, env), runtime_archive(), len(nodes) > 1
    keys = {node.host.name: profile_key(node.facts, job, sizes) for node in nodes}
    found = {} if refresh else _known(keys, couriers=several)
    grounds: dict[str, Ground] = {}

    def one(node: NodeFacts) -> ClusterProfile:
        name, connection = node.host.name, connections[node.host.name]
        grounds[name] = _ground(connection, node, archive, job, progress)
        if name in found:
            return found[name]
        if node.host.connection == "local":
            told = partial(_tell, progress, name)
            return measured_profile(job, env, node.facts, several=several, progress=told)
        request = partial(measure_request, job, env, sizes, node.facts, several=several)
        return _measured_there(connection, node, grounds[name], request, keys[name], progress)

    outcomes = fan_out({node.host.name: node for node in nodes}, one, limits=Limits(tries=1, host_s=_MEASURED_WITHIN_S))
    profiles = {name: came.value for name, came in outcomes.items() if isinstance(came, Ok)}
    failed = {name: came.error for name, came in outcomes.items() if isinstance(came, Err)}
    there = {name: ground for name, ground in grounds.items() if name in profiles}
    links, broken = _links(nodes, connections, there, refresh=refresh, progress=progress)
    reports = {name: profile.hosts[0].measured for name, profile in profiles.items()}
    hosts = tuple(HostProfile(facts=node.facts, measured=reports.get(node.host.name)) for node in nodes)
    profile = ClusterProfile(key=digest_of(keys), created_at=datetime.now(UTC), hosts=hosts, links=links)
    return Measured(profile, tuple(found), failed | broken)


def _known(keys: Mapping[str, str], *, couriers: bool) -> dict[str, ClusterProfile]:
    """What was measured before, with nothing changed since; `couriers`: only where these were measured, too."""
    found = {name: store.cached(key) for name, key in keys.items()}
    return {
        name: known
        for name, known in found.items()
        if known is not None
        and (report := known.hosts[0].measured) is not None
        and (report.courier_cpu_s_per_fragment is not None or not couriers)
    }


def _tell(progress: Callable[[str], None], name: str, step: MeasureProgress) -> None:
    progress(f"{name}: {progress_line(step)}")


def _ground(
    connection: Connection, node: NodeFacts, archive: Archive, job: Job, progress: Callable[[str], None]
) -> Ground:
    """Where the runtime lies on a host, which it is brought to first where it is not there."""
    name = node.host.name
    if node.host.connection == "local":
        store.open_store()
        return Ground(sys.executable, str(Path(runtime.__file__).parents[1]), str(state_home()))
    found = check_host(connection, node.host, digest=archive.digest, modules=env_modules(job.env.id))
    if not found.staged:
        progress(f"{name}: bringing the runtime there")
        stage(connection, found.state, archive)
    return Ground(found.python, staged_at(found.state, archive), found.state)


def _measured_there(
    connection: Connection,
    node: NodeFacts,
    ground: Ground,
    request: Callable[[Path], MeasureRequest],
    key: str,
    progress: Callable[[str], None],
) -> ClusterProfile:
    """Measure a host across a connection; the runtime is there."""
    name = node.host.name
    progress(f"{name}: measuring")
    made = connection.run('umask 077; mktemp -d "$1/.measure-XXXXXX"', ground.state)
    if made.status != 0:
        raise TianjiError(f"{name}: no folder can be made in {ground.state}: {made.complaint}")
    try:
        done = connection.run(
            _MEASURE, ground.python, ground.path, request(Path(made.text)).model_dump_json(),
            timeout_s=_MEASURED_WITHIN_S,
        )  # fmt: skip
    finally:
        connection.run('rm -rf -- "$1"', made.text)
    if done.status != 0:
        raise TianjiError(f"{name}: measuring failed: {last_line(done.text) or done.complaint}")
    report = MeasureReport.model_validate_json(last_line(done.text))
    hosts = (HostProfile(facts=node.facts, measured=report),)
    profile = ClusterProfile(key=key, created_at=datetime.now(UTC), hosts=hosts)
    store.keep(profile)
    return profile


def _links(
    nodes: Sequence[NodeFacts],
    connections: Mapping[str, Connection],
    grounds: Mapping[str, Ground],
    *,
    refresh: bool,
    progress: Callable[[str], None],
) -> tuple[tuple[LinkRate, ...], dict[str, TianjiError]]:
    """Links between hosts, by the networks that a run would take; what failed, by the words that name it."""
    if len(grounds) < 2:
        return (), {}
    try:
        head = head_of([node.host for node in nodes]).name
        networks, _ = choose_networks(nodes, head)
    except TianjiError as error:
        return (), {"links": error}
    links, failures = measure_links(nodes, head, networks, connections, grounds, refresh=refresh, progress=progress)
    return links, {f"link {number}": error for number, error in enumerate(failures, 1)}
