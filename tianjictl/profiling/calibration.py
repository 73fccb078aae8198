"""Costs that runs have measured of themselves flow back: the newest measurement counts, whoever made it. Pure but for
`learnt_from_runs`."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from tianjictl.runs.client import stored_view
from tianjictl.runs.registry import list_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from runtime.contract.rates import HostRates
    from runtime.contract.view import RunView

MOST_RUNS = 50  #: looked at, the newest first


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Rates by host, and what should be said of those that a run has measured."""

    rates: Mapping[str, HostRates]
    notes: tuple[str, ...] = field(default=())


def calibrated(
    profiled: Mapping[str, HostRates],
    keys: Mapping[str, str],
    measured_at: Mapping[str, datetime],
    views: Iterable[RunView],
) -> Calibrated:
    """`profiled` rates, replaced where a run of the same kind on the same host has measured them since.

    `keys`: of each host's profile, `measured_at`: when it was made; a host without one is taken to be like another and
    keeps those rates. `views`: of runs, the newest first.
    """
    rates, notes = dict(profiled), []
    wanted = [host for host in keys if host in measured_at]
    for view in views:
        measured = {costs.profile_key: costs.rates for costs in view.costs}
        for host in [host for host in wanted if keys[host] in measured and view.updated_at > measured_at[host]]:
            wanted.remove(host)
            rates[host] = measured[keys[host]]
            notes.append(f"{host}: as {view.run_id} measured it{_changes(profiled[host], rates[host])}")
        if not wanted:
            break
    return Calibrated(rates, tuple(notes))


def learnt_from_runs(
    profiled: Mapping[str, HostRates], keys: Mapping[str, str], measured_at: Mapping[str, datetime]
) -> Calibrated:
    """The same by the last views of this operator's newest runs."""
    if not measured_at:
        return Calibrated(profiled)
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
