"""Measured rates of several hosts, each from its own profile; a host that was not measured is taken to be like one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tianjictl.profiling import store
from tianjictl.profiling.local import measured_sizes
from tianjictl.profiling.profile import digest_of, profile_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
    from runtime.contract.measurement import MeasureReport
    from tianjictl.profiling.profile import ClusterProfile
    from tianjictl.profiling.remote_facts import NodeFacts


@dataclass(frozen=True, slots=True)
class KnownRates:
    """What was measured, by host; empty where nothing was. `digest` names the measurements themselves.

    `measured_at`: of hosts with a profile of their own in the cache; what runs measure later counts more.
    """

    reports: Mapping[str, MeasureReport] = field(default_factory=dict)
    digest: str | None = None
    measured_at: Mapping[str, datetime] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def known_rates(nodes: Sequence[NodeFacts], job: Job, env: EnvSpec, path: Path | None = None) -> KnownRates:
    """Rates of every host from the profile in `path`, else from the cache."""
    profiles = {} if path is not None else _from_cache(nodes, job, env)
    found = (
        _from_file(nodes, path)
        if path is not None
        else {name: report for name, profile in profiles.items() if (report := profile.hosts[0].measured) is not None}
    )
    if not found:
        return KnownRates()
    reports, notes = dict(found), []
    for node in nodes:
        if node.host.name in found:
            continue
        alike = [other for other in nodes if other.host.name in found and _model(other) == _model(node)]
        model = (alike or [other for other in nodes if other.host.name in found])[0]
        reports[node.host.name] = found[model.host.name]
        why = f"has the same CPU, {_model(node)}" if alike else f"has another CPU, {_model(model)}"
        notes.append(f"{node.host.name} was not measured and is taken to be as fast as {model.host.name}, which {why}")
    digest = digest_of({name: report.model_dump(mode="json") for name, report in sorted(found.items())})
    return KnownRates(reports, digest, {name: profiles[name].created_at for name in profiles}, tuple(notes))


def _from_file(nodes: Sequence[NodeFacts], path: Path) -> dict[str, MeasureReport]:
    by_name = {host.facts.name: host.measured for host in store.load(path).hosts}
    return {name: report for node in nodes if (report := by_name.get(name := node.host.name)) is not None}


def _from_cache(nodes: Sequence[NodeFacts], job: Job, env: EnvSpec) -> dict[str, ClusterProfile]:
    """Each host's own; the cache goes by what a host is, not by its name."""
    sizes, found = measured_sizes(job, env), {}
    for node in nodes:
        profile = store.cached(profile_key(node.facts, job, sizes))
        if profile is not None and profile.hosts[0].measured is not None:
            found[node.host.name] = profile
    return found


def _model(node: NodeFacts) -> str:
    return node.facts.cpu.model
