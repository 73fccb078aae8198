"""What a run's view says as metrics: names, units, labels and numbers, by the conventions of Prometheus. Pure.

Counters end in `_total`, units are seconds, bytes and ratios of 1. Every sample has the label `run`; the others have
few values: a component, a host, a role, a state. A number that is not known is left out, never written as 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from runtime.contract.states import ComponentState, Role, RunState

if TYPE_CHECKING:
    from runtime.contract.view import ComponentView, HostView, LinkView, RunView

Labels = Mapping[str, str]
Values = Iterable[tuple[Labels, float | None]]
_SHAPE = re.compile(r"L(\d+)A(\d+)")


class Kind(Enum):
    """How a number may move."""

    GAUGE = "gauge"
    COUNTER = "counter"  #: only grows, but for a fresh start at 0


@dataclass(frozen=True, slots=True)
class Family:
    """Samples of one name. A counter's name is written with `_total` behind it."""

    name: str
    help: str
    kind: Kind
    values: tuple[tuple[Labels, float], ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """How one family is read off a view; none for what is not known."""

    name: str
    help: str
    read: Callable[[RunView], Values]
    kind: Kind = Kind.GAUGE

    def of(self, view: RunView) -> Family:
        """The family, with the run among the labels."""
        known = tuple(
            ({"run": view.run_id, **labels}, float(value)) for labels, value in self.read(view) if value is not None
        )
        return Family(self.name, self.help, self.kind, known)


def one(read: Callable[[RunView], float | None]) -> Callable[[RunView], Values]:
    return lambda view: [({}, read(view))]


def states(view: RunView) -> Values:
    return [({"state": state}, float(view.state is state)) for state in RunState]


def sides(view: RunView) -> Values:
    sides = ("actors", "receiver", "learner", "unknown")
    return [({"side": side}, float(view.bottleneck.side == side)) for side in sides]


def dropped(view: RunView) -> Values:
    yield {"reason": "stale"}, view.samples.dropped_stale
    yield {"reason": "other"}, view.samples.dropped_other


def counted(view: RunView) -> Values:
    """Every state of the roles that the run has, so that a state that nobody is in any more reads 0."""
    for role in sorted({component.role for component in view.components}):
        for state in ComponentState:
            count = sum(each.role is role and each.state is state for each in view.components)
            yield {"role": role, "state": state}, count


def shape_of(read: Callable[[RunView], str]) -> Callable[[RunView], Values]:
    def values(view: RunView) -> Iterator[tuple[Labels, float]]:
        if found := _SHAPE.fullmatch(read(view)):
            yield {"role": Role.LEARNER}, int(found[1])
            yield {"role": Role.ACTOR}, int(found[2])

    return values


def checkpoint_time(view: RunView) -> float | None:
    age = view.checkpoints.last_age_s
    return None if age is None else view.updated_at.timestamp() - age


def achieved(view: RunView) -> float | None:
    expected = view.predicted.samples_per_s
    return view.rates.samples_per_s / expected if expected else None


def components(read: Callable[[ComponentView], float | None], *roles: Role) -> Callable[[RunView], Values]:
    return lambda view: [
        ({"component": each.name, "role": each.role, "host": each.host}, read(each))
        for each in view.components
        if not roles or each.role in roles
    ]


def gauge_of(name: str, *roles: Role) -> Callable[[RunView], Values]:
    return components(lambda each: each.gauges.get(name), *roles)


def cores_used(component: ComponentView) -> float | None:
    return None if component.cpu_percent is None else component.cpu_percent / 100


def hosts(read: Callable[[HostView], float | None]) -> Callable[[RunView], Values]:
    return lambda view: [({"host": host.name}, read(host)) for host in view.hosts]


def links(read: Callable[[LinkView], float | None]) -> Callable[[RunView], Values]:
    return lambda view: [({"source": link.source, "target": link.target}, read(link)) for link in view.links]
