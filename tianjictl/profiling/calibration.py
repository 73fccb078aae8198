"""Costs that runs have measured of themselves flow back: the newest measurement counts, whoever made it. Pure but for
`learnt_from_runs`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from tianjictl.profiling.speeds import At, Speeds
from tianjictl.runs.client import stored_view
from tianjictl.runs.registry import list_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from runtime.contract.measurement import MeasureReport
    from runtime.contract.plan import Sizes
    from runtime.contract.rates import HostRates
    from runtime.contract.view import HostCosts, RunView

MOST_RUNS = 50  #: looked at, the newest first


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Speeds by host, and what should be said of those that a run has measured."""

    speeds: Mapping[str, Speeds]
    notes: tuple[str, ...] = field(default=())

    @property
    def scales(self) -> bool:
        """Whether it is known of every host what other sizes cost."""
        return bool(self.speeds) and all(each.scales for each in self.speeds.values())

    def at(self, sizes: Sizes) -> dict[str, HostRates]:
        """Rates of every host with these sizes."""
        return {host: each.at(sizes) for host, each in self.speeds.items()}


def calibrated(
    profiled: Mapping[str, MeasureReport],
    keys: Mapping[str, str],
    measured_at: Mapping[str, datetime],
    views: Iterable[RunView],
) -> Calibrated:
    """Speeds as profiled, replaced where a run of the same kind on the same host has measured them since.

    A run may have had other sizes: what the profile says of the difference is what carries its costs over.
    `keys`: of each host's profile, `measured_at`: when it was made; a host without one is taken to be like another and
    keeps those rates. `views`: of runs, the newest first.
    """
    speeds, notes = {host: Speeds(report) for host, report in profiled.items()}, []
    wanted = [host for host in keys if host in measured_at]
    for view in views:
        measured = {costs.profile_key: costs for costs in view.costs}
        for host in [host for host in wanted if keys[host] in measured and view.updated_at > measured_at[host]]:
            wanted.remove(host)
            before = speeds[host]
            speeds[host] = _learnt(before, measured[keys[host]])
            notes.append(f"{host}: as {view.run_id} measured it{_changes(before.at(), speeds[host].at())}")
        if not wanted:
            break
    return Calibrated(speeds, tuple(notes))


def _learnt(before: Speeds, costs: HostCosts) -> Speeds:
    """A view that is older than these numbers says nothing of its sizes: they are taken to be the profile's."""
    sizes = None
    if costs.num_envs is not None and costs.batch_size is not None:
        sizes = At(costs.num_envs, costs.batch_size)
    return replace(before, observed=costs.rates, observed_at=sizes)


def learnt_from_runs(
    profiled: Mapping[str, MeasureReport], keys: Mapping[str, str], measured_at: Mapping[str, datetime]
) -> Calibrated:
    """The same by the last views of this operator's newest runs."""
    if not measured_at:
        return Calibrated({host: Speeds(report) for host, report in profiled.items()})
    return calibrated(profiled, keys, measured_at, _views_since(min(measured_at.values()).timestamp()))


def _views_since(moment: float) -> Iterator[RunView]:
    for run in islice(list_runs(), MOST_RUNS):
        if not _written_since(run.paths.view, moment):
            continue
        view = stored_view(run)
        if view is not None:
            yield view


def _written_since(path: Path, moment: float) -> bool:
    """What is kept here, whichever machine the run is on: a plan asks no other run's host."""
    try:
        return path.stat().st_mtime > moment
    except FileNotFoundError:
        return False


def _changes(before: HostRates, after: HostRates) -> str:
    cores = before.learner[0].cores
    told = [
        f"{what} {ratio - 1.0:+.0%}"
        for what, ratio in (
            ("actors", after.actor_steps_per_s / before.actor_steps_per_s),
            ("learner", after.learner_on(cores).samples_per_s / before.learner_on(cores).samples_per_s),
        )
        if abs(ratio - 1.0) >= 0.01
    ]
    return f" ({', '.join(told)} against the profile)" if told else ""
