"""How the two ends of a link between nodes are brought together, in pure code: `step(link, event, now=…)`.

waiting → opening → joining → up
             └─────────┴───────┴→ lost → opening …

A link begins to exist with the first report that tells of it. The first of its ends, by the plan's order, opens a port
and accepts; the other connects there. Every try has a number of its own (`serial`), which both ends repeat in their
reports: so a word about an older try is never taken for one about this. `now` is the coordinator's monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from runtime.contract.messages import JoinLink, LinkReport, OpenLink, ResetLink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TRY_S = 6.0  #: a try that is not up by then is over
RESET_AGAIN_S = 1.0  #: an order to reset is given again until its end has confirmed it
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.2, 2.0


class LinkState(StrEnum):
    """Where a link stands."""

    WAITING = "waiting"  #: one of its ends is not ready
    OPENING = "opening"  #: its first end opens a port
    JOINING = "joining"  #: both ends were told to meet there
    UP = "up"
    LOST = "lost"  #: it broke or could not be joined: it is tried again


@dataclass(frozen=True, slots=True)
class Reported:
    """One end says how it stands."""

    node: str
    report: LinkReport


@dataclass(frozen=True, slots=True)
class Gone:
    """The node of one end is lost."""

    node: str


@dataclass(frozen=True, slots=True)
class Renewed:
    """The node of one end has begun anew: what the other end remembers of it must be forgotten."""

    node: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = Reported | Gone | Renewed | Tick


@dataclass(frozen=True, slots=True)
class Send:
    """An order to the agent of one end."""

    node: str
    message: OpenLink | JoinLink | ResetLink


@dataclass(frozen=True, slots=True)
class Say:
    """One line of the event log."""

    kind: str
    message: str


Effect = Send | Say


@dataclass(frozen=True, slots=True)
class Link:
    """All that is known of one link. `accepts` is the end that opens the port, `connects` the other."""

    accepts: str
    connects: str
    state: LinkState = LinkState.WAITING
    reason: str = ""
    serial: int = 0  #: of the newest try or reset
    reports: Mapping[str, LinkReport] = field(default_factory=dict)  #: the newest word of each end that is there
    shown: frozenset[str] = frozenset()  #: ends that have told of the present try
    resets: Mapping[str, int] = field(default_factory=dict)  #: end → serial of a reset that it has not confirmed
    reset_at: float = 0.0
    failed: int = 0  #: tries in a row that failed
    began_at: float = 0.0  #: of the present try
    retry_at: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.accepts}–{self.connects}"

    def other(self, node: str) -> str:
        """The node at the end that is not this one's."""
        return self.connects if node == self.accepts else self.accepts


Outcome = tuple[Link, list[Effect]]


def step(link: Link, event: Event, *, now: float) -> Outcome:
    """What becomes of the link, and what has to be sent and said, in order."""
    match event:
        case Reported(node=node, report=report):
            link = _take(link, node, report)
        case Gone(node=node):
            link = _without(link, node)
            if link.state is not LinkState.WAITING:
                return _lose(link, f"node {node} is lost", now)
            return replace(link, reason=f"node {node} is lost"), []
        case Renewed(node=node):
            return _renew(link, node, now)
        case Tick():
            pass
    link, effects = _remind(link, now)
    link, more = _STEPS[link.state](link, now)
    return link, [*effects, *more]


def _take(link: Link, node: str, report: LinkReport) -> Link:
    resets = {end: serial for end, serial in link.resets.items() if end != node or report.serial < serial}
    shown = link.shown | {node} if report.serial == link.serial else link.shown
    return replace(link, reports={**link.reports, node: report}, resets=resets, shown=shown)


def _without(link: Link, node: str) -> Link:
    return replace(link, reports={end: report for end, report in link.reports.items() if end != node})


def _renew(link: Link, node: str, now: float) -> Outcome:
    other, serial = link.other(node), _next_serial(link)
    resets = {end: due for end, due in link.resets.items() if end != node} | {other: serial}
    link = replace(_without(link, node), serial=serial, resets=resets, reset_at=now, shown=frozenset(), failed=0)
    order = Send(other, ResetLink(peer=node, serial=serial))
    if link.state is LinkState.WAITING:
        return replace(link, reason=f"node {node} has begun anew"), [order]
    link, effects = _lose(link, f"node {node} has begun anew", now)
    return link, [*effects, order]


def _remind(link: Link, now: float) -> Outcome:
    if not link.resets or now - link.reset_at < RESET_AGAIN_S:
        return link, []
    orders: list[Effect] = [
        Send(end, ResetLink(peer=link.other(end), serial=serial)) for end, serial in link.resets.items()
    ]
    return replace(link, reset_at=now), orders


def _next_serial(link: Link) -> int:
    return max([link.serial, *(report.serial for report in link.reports.values())]) + 1


def _both_up(link: Link) -> bool:
    serials = {report.serial for report in link.reports.values() if report.state == "up"}
    return len(link.reports) == 2 and all(r.state == "up" for r in link.reports.values()) and len(serials) == 1


def _idle(link: Link, now: float) -> Outcome:
    """Waiting or lost: begin a try when both ends can."""
    if link.resets:
        return link, []
    if _both_up(link):  # joined under a coordinator before this one, or only their agents were not heard of
        serial = link.reports[link.accepts].serial
        up = replace(link, state=LinkState.UP, reason="", serial=serial, failed=0)
        said = f"link {link.name} is up again: it had not been interrupted"
        return up, [Say("link.up", said)] if link.state is LinkState.LOST else []
    for node in (link.accepts, link.connects):
        report = link.reports.get(node)
        if report is None or report.state == "starting":
            what = "is not heard of" if report is None else "starts its courier"
            return (replace(link, reason=f"{node} {what}") if link.state is LinkState.WAITING else link), []
    if now < link.retry_at:
        return link, []
    serial = _next_serial(link)
    begun = replace(
        link, state=LinkState.OPENING, reason=f"{link.accepts} opens a port", serial=serial, shown=frozenset(),
        began_at=now,
    )  # fmt: skip
    return begun, [Send(link.accepts, OpenLink(peer=link.connects, serial=serial))]


def _opening(link: Link, now: float) -> Outcome:
    report = link.reports[link.accepts]
    if report.serial == link.serial and report.state == "open" and report.port:
        joining = replace(link, state=LinkState.JOINING, reason=f"{link.connects} connects to {report.port}")
        return joining, [
            Send(link.accepts, JoinLink(peer=link.connects, serial=link.serial)),
            Send(link.connects, JoinLink(peer=link.accepts, serial=link.serial, port=report.port)),
        ]
    return _may_fail(link, now)


def _joining(link: Link, now: float) -> Outcome:
    if _both_up(link) and link.reports[link.accepts].serial == link.serial:
        transport = link.reports[link.accepts].transport
        said = f"link {link.name} is up over {transport}, {now - link.began_at:.2f} s after it was tried"
        return replace(link, state=LinkState.UP, reason="", failed=0), [Say("link.up", said)]
    return _may_fail(link, now)


def _may_fail(link: Link, now: float) -> Outcome:
    """A try is over when an end says so, when an end's courier was replaced meanwhile, or when it takes too long."""
    for node, report in link.reports.items():
        if report.serial == link.serial and report.state == "lost":
            return _fail(link, f"{node}: {report.reason or 'it could not be joined'}", now)
        if node in link.shown and (report.serial != link.serial or report.state in ("starting", "ready")):
            return _fail(link, f"the courier of {node} was replaced", now)
    if now - link.began_at > TRY_S:
        return _fail(link, f"not joined within {TRY_S:g} s ({link.reason})", now)
    return link, []


def _fail(link: Link, reason: str, now: float) -> Outcome:
    first = link.failed == 0
    link, _ = _lose(link, reason, now)
    said = f"link {link.name} could not be joined: {reason}; it is tried again"
    return replace(link, failed=link.failed + 1), [Say("link.failed", said)] if first else []


def _up(link: Link, now: float) -> Outcome:
    for node, report in link.reports.items():
        if report.state != "up" or report.serial != link.serial:
            return _lose(link, f"{node}: {report.reason or 'its courier is ' + report.state}", now)
    return link, []


def _lose(link: Link, reason: str, now: float) -> Outcome:
    wait_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0**link.failed)
    lost = replace(link, state=LinkState.LOST, reason=reason, retry_at=now + wait_s)
    said = Say("link.lost", f"link {link.name} is lost: {reason}")
    return lost, [said] if link.state is LinkState.UP else []


_STEPS: dict[LinkState, Callable[[Link, float], Outcome]] = {
    LinkState.WAITING: _idle,
    LinkState.OPENING: _opening,
    LinkState.JOINING: _joining,
    LinkState.UP: _up,
    LinkState.LOST: _idle,
}
