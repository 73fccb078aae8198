"""The profile of an inventory: facts of every host, and rates measured on all of them at once where a job is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.measurement import MeasureReport
from tianjictl.errors import TianjiError
from tianjictl.launching.host_check import check_host, env_modules
from tianjictl.launching.local_plan import progress_line
from tianjictl.launching.staging import runtime_archive, stage, staged_at
from tianjictl.profiling import store
from tianjictl.profiling.local import measure_request, measured_profile, measured_sizes
from tianjictl.profiling.probing import last_line
from tianjictl.profiling.profile import ClusterProfile, HostProfile, digest_of, inventory_digest, profile_key
from tianjictl.remote.fanout import Err, Limits, Ok, fan_out

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
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
    failed: Mapping[str, TianjiError] = field(default_factory=dict)


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
    sizes = measured_sizes(job, env)
    keys = {node.host.name: profile_key(node.facts, job, sizes) for node in nodes}
    found = {} if refresh else {name: known for name, key in keys.items() if (known := store.cached(key)) is not None}
    to_do = {node.host.name: node for node in nodes if node.host.name not in found}

    def one(node: NodeFacts) -> ClusterProfile:
        name = node.host.name
        if node.host.connection == "local":
            return measured_profile(
                job, env, node.facts, progress=lambda step: progress(f"{name}: {progress_line(step)}")
            )
        return _measured_there(connections[name], node, job, env, progress)

    outcomes = fan_out(to_do, one, limits=Limits(tries=1, host_s=_MEASURED_WITHIN_S))
    fresh = {name: came.value for name, came in outcomes.items() if isinstance(came, Ok)}
    reports = {name: profile.hosts[0].measured for name, profile in (found | fresh).items()}
    hosts = tuple(HostProfile(facts=node.facts, measured=reports.get(node.host.name)) for node in nodes)
    return Measured(
        ClusterProfile(key=digest_of(keys), created_at=datetime.now(UTC), hosts=hosts),
        tuple(found),
        {name: came.error for name, came in outcomes.items() if isinstance(came, Err)},
    )


def _measured_there(
    connection: Connection, node: NodeFacts, job: Job, env: EnvSpec, progress: Callable[[str], None]
) -> ClusterProfile:
    """Measure a host across a connection; it needs the runtime, which is brought there first."""
    name, archive = node.host.name, runtime_archive()
    found = check_host(connection, node.host, digest=archive.digest, modules=env_modules(job.env.id))
    if not found.staged:
        progress(f"{name}: bringing the runtime there")
        stage(connection, found.state, archive)
    progress(f"{name}: measuring")
    made = connection.run('umask 077; mktemp -d "$1/.measure-XXXXXX"', found.state)
    if made.status != 0:
        raise TianjiError(f"{name}: no folder can be made in {found.state}: {made.complaint}")
    sizes = measured_sizes(job, env)
    request = measure_request(job, env, sizes, node.facts, Path(made.text))
    try:
        done = connection.run(
            _MEASURE, found.python, staged_at(found.state, archive), request.model_dump_json(),
            timeout_s=_MEASURED_WITHIN_S,
        )  # fmt: skip
    finally:
        connection.run('rm -rf -- "$1"', made.text)
    if done.status != 0:
        raise TianjiError(f"{name}: measuring failed: {last_line(done.text) or done.complaint}")
    report = MeasureReport.model_validate_json(last_line(done.text))
    profile = ClusterProfile(
        key=profile_key(node.facts, job, sizes),
        created_at=datetime.now(UTC),
        hosts=(HostProfile(facts=node.facts, measured=report),),
    )
    store.keep(profile)
    return profile
