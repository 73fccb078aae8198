"""What nobody reports: agents that fall silent, training that stands still, a ledger that is off, freshness rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.states import Role, RunState
from runtime.control import drifting
from runtime.control.links import Link, LinkState
from runtime.control.run_state import AgentSilent, LinksJudged, NoProgress, Progressed, Run, RunEvent
from runtime.control.view_builder import SILENT_AFTER_S, freshness, rates
from runtime.freshness.advice import freshness_advice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runtime.contract.plan import Plan
    from runtime.contract.view import Drift
    from runtime.control.event_log import EventLog
    from runtime.control.fold import Fold

NO_PROGRESS_S = 60.0
LINK_PATIENCE_S = 5.0  #: a link that is not up for so long is said to be down: a new one takes a moment
ADVICE_EVERY_S = 10.0


class Watch:
    """Remembers when things last moved. Each finding is said once, when it begins and when it ends."""

    def __init__(self, plan: Plan, *, now: float) -> None:
        self._plan = plan
        self._moved_at = now
        self._updates = -1
        self._advised_at = now
        self._rules: frozenset[str] = frozenset()
        self._mismatched = False
        self._down_since: dict[str, float] = {}  # link → when it was first seen not to be up
        self._undone: dict[str, int] = {}  # learner → updates undone when it was last said
        self._undone_said_at = now - ADVICE_EVERY_S
        self._drift = drifting.Memory()

    def revise(self, plan: Plan) -> None:
        """Another plan holds."""
        self._plan = plan

    @property
    def drift(self) -> Drift:
        """How the measured rates compare with the predicted ones."""
        return self._drift.drift

    def look(
        self, fold: Fold, run: Run, events: EventLog, now: float, *, links: Iterable[Link] = ()
    ) -> Iterator[RunEvent]:
        """Events for the run's machine, in the order of their finding. `links`: of nodes that are all there."""
        if fold.progress.updates != self._updates or run.checkpointing or run.paused:
            self._updates, self._moved_at = fold.progress.updates, now
        yield from self._agents(fold, run, events, now)
        yield from self._progress(run, events, now)
        yield from self._links(links, run, events, now)
        self._reconcile(fold, events)
        self._tell_undone(fold, events, now)
        self._tell_drift(fold, run, events, now)
        if now - self._advised_at >= ADVICE_EVERY_S:
            self._advised_at = now
            self._advise(fold, events)

    def _agents(self, fold: Fold, run: Run, events: EventLog, now: float) -> Iterator[RunEvent]:
        """The head's: of any other node its silence means that the node is lost."""
        node = self._plan.head
        age = now - fold.heard_at.get(node, now)
        if age > SILENT_AFTER_S and "agent" not in run.troubles:
            event = events.write("agent.silent", f"no report for {age:.1f} s", host=node)
            yield AgentSilent(id=event, node=node, age_s=age)

    def _progress(self, run: Run, events: EventLog, now: float) -> Iterator[RunEvent]:
        age = now - self._moved_at
        if age > NO_PROGRESS_S and self._updates > 0 and not run.troubles:
            event = events.write("progress.none", f"no update for {age:.0f} s")
            yield NoProgress(id=event, age_s=age)
        elif age <= NO_PROGRESS_S and "progress" in run.troubles:
            yield Progressed(id=events.write("progress.again", "updates are being made again"))

    def _links(self, links: Iterable[Link], run: Run, events: EventLog, now: float) -> Iterator[RunEvent]:
        """A run whose components all work does not say that what some of them make goes nowhere."""
        down = {link.name: link for link in links if link.state is not LinkState.UP}
        self._down_since = {name: self._down_since.get(name, now) for name in down}
        long = {name: link for name, link in down.items() if now - self._down_since[name] > LINK_PATIENCE_S}
        told = [f"link {name} is down" + (f": {link.reason}" if link.reason else "") for name, link in long.items()]
        trouble = "; ".join(told[:3]) or None
        before = run.troubles.get("links")
        if (trouble is None) != (before is None):
            kind, text = (
                ("link.down", trouble) if trouble else ("link.all-up", "every link between nodes that are there is up")
            )
            yield LinksJudged(id=events.write(kind, text), trouble=trouble)

    def _reconcile(self, fold: Fold, events: EventLog) -> None:
        """The ledger is one of the run's promises: if it is ever broken, say so."""
        excess = fold.samples()[1]
        if excess and not self._mismatched:
            self._mismatched = True
            events.write("ledger.mismatch", f"{excess} samples more were consumed or dropped than were produced")

    def _tell_undone(self, fold: Fold, events: EventLog, now: float) -> None:
        """Updates that were not finite change nothing, so nobody would notice: say how many there are."""
        undone = {report.name: report.counters.get("rollbacks", 0) for report in fold.of_role(Role.LEARNER)}
        grown = {name: count for name, count in undone.items() if count > self._undone.get(name, 0)}
        if not grown or now - self._undone_said_at < ADVICE_EVERY_S:
            return
        self._undone, self._undone_said_at = undone, now
        for name, count in grown.items():
            text = f"{name}: {count} updates so far were not finite and were undone; its log says what was not"
            events.write("update.undone", text, component=name)

    def _tell_drift(self, fold: Fold, run: Run, events: EventLog, now: float) -> None:
        if self._plan.predicted.samples_per_s is None:
            return
        training = run.state is RunState.RUNNING and not run.checkpointing
        measured = rates(fold).samples_per_s
        self._drift, turned = drifting.look(
            self._drift, self._plan, measured, fold.observed, training=training, now=now
        )
        if turned is not None:
            events.write("rates.drift" if turned.drifting else "rates.as-predicted", turned.message)

    def _advise(self, fold: Fold, events: EventLog) -> None:
        """Say which rule of the balance applies, when that changes."""
        learners = fold.of_role(Role.LEARNER)
        measured = self._plan.job.algorithm.max_lag is not None and any(sum(r.lag_histogram) for r in learners)
        found = freshness_advice(
            batch_size=self._plan.sizes.batch_size,
            buffer_size=self._plan.sizes.buffer_size,
            tolerance=self._plan.sizes.staleness_tolerance,
            staleness=freshness(self._plan, fold).staleness_ratio if measured else None,
        )
        for advice in found:
            if advice.rule not in self._rules:
                events.write("freshness.advice", advice.message)
        self._rules = frozenset(advice.rule for advice in found)
