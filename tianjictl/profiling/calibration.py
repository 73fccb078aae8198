"""Costs that runs have measured of themselves flow back: the newest measurement counts, whoever made it. Pure but for
`recent_views`."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from tianjictl.runs.client import stored_view
from tianjictl.runs.registry import list_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

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
    wanted = {key: host for host, key in keys.items() if host in measured_at}
    for view in views:
        for costs in view.costs:
            host = wanted.get(costs.profile_key or "")
            if host is None or view.updated_at <= measured_at[host]:
                continue
            del wanted[keys[host]]
            notes.append(f"{host}: as {view.run_id} measured it{_changes(profiled[host], costs.rates)}")
            rates[host] = costs.rates
        if not wanted:
            break
    return Calibrated(rates, tuple(notes))


def recent_views() -> Iterator[RunView]:
    """The last view of each of this operator's newest runs."""
    for run in islice(list_runs(), MOST_RUNS):
        view = stored_view(run)
        if view is not None and view.costs:
            yield view


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
