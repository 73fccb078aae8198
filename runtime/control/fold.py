"""All that the agents' reports have said so far, folded into the numbers of the whole run. Pure: `now` is passed in.

Counting over resumes: a learner's and a buffer's counters come back with their shards, so their reports already count
the whole run. Actors keep no shard of their counters: their env steps and episodes count from 0 in each attempt, as do
all rings. `Base` holds what earlier attempts have made; it is added here and nowhere else.

Counting over changes of the plan: what a component has counted stays when it is gone (`Past`). Its last report may come
after the plan has dropped it, so it is counted until its node works by a plan without it, or has begun anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.states import ComponentState, Role
from runtime.contract.view import Progress
from runtime.control.counted import Memory, Past, add_histograms
from runtime.control.ledger import Ledger
from runtime.control.observed import Observed
from runtime.control.pace import Paces
from runtime.control.rewards import Rewards
from runtime.control.run_state import Standing
from runtime.control.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from runtime.contract.messages import ComponentReport, LinkReport, Report
    from runtime.contract.plan import Placement, Plan
    from runtime.contract.view import Samples
    from runtime.control.counted import Base

_OVER = (ComponentState.EXITED, ComponentState.FAILED)


class Fold:
    """The newest word on every component, and what follows from all of them together."""

    def __init__(self, plan: Plan, base: Base, so_far: Progress | None = None, memory: Memory | None = None) -> None:
        """`so_far` is what an earlier coordinator of this attempt had counted, `memory` what it knew."""
        memory = memory or Memory(past=base.past)
        self._base = base
        self._reports = {report.name: report for report in memory.reports}
        self._nodes = dict(memory.nodes)
        self._dropped = dict(memory.dropped)
        self._forsaken = set(memory.forsaken)
        self._past = memory.past
        self._couriers: dict[str, tuple[ComponentReport, ...]] = {}
        self._links: dict[str, tuple[LinkReport, ...]] = {}
        self._revisions: dict[str, int] = {}
        self._heard_at: dict[str, float] = {}
        self._away: dict[str, str] = {}
        self._learning = False
        self._actors: set[str] = set()
        self.ledger = Ledger(plan, on_policy=plan.job.on_policy, books=memory.books)
        self.rewards = Rewards(base.rewards)
        self.lags = Window()
        self.paces = Paces()
        self.observed = Observed(plan)
        self.progress = so_far or base.progress
        self.revise(plan)

    @property
    def base(self) -> Base:
        return self._base

    @property
    def past(self) -> Past:
        """What the components that are gone for good had counted."""
        return self._past

    def updates_without_shard(self) -> int:
        """Updates of learners that are gone, or away with their node: no shard of a checkpoint written now has them."""
        away = [learner for learner in self.of_role(Role.LEARNER) if learner.state is ComponentState.AWAY]
        return self._past.updates + sum(learner.counters.get("updates", 0) for learner in away)

    @property
    def reports(self) -> Mapping[str, ComponentReport]:
        """The newest report on each component, by name; couriers aside."""
        return self._reports

    @property
    def couriers(self) -> Mapping[str, tuple[ComponentReport, ...]]:
        """The newest reports on couriers, by node."""
        return self._couriers

    @property
    def links(self) -> Mapping[str, tuple[LinkReport, ...]]:
        """The newest reports on links, by the node that sent them."""
        return self._links

    @property
    def heard_at(self) -> Mapping[str, float]:
        """When each node last reported."""
        return self._heard_at

    @property
    def now(self) -> float:
        """When the newest report came."""
        return max(self._heard_at.values(), default=0.0)

    def revision_of(self, node: str) -> int:
        """By which plan a node works, as it said last."""
        return self._revisions.get(node, 0)

    @property
    def away(self) -> Mapping[str, str]:
        """Nodes that are lost, and why."""
        return self._away

    @property
    def forsaken(self) -> Collection[str]:
        """Components of the plan whose node has begun anew since it ran them."""
        return self._forsaken

    def memory(self) -> Memory:
        return Memory(
            books=self.ledger.books(),
            past=self._past,
            reports=tuple(map(_shortened, self._reports.values())),
            nodes=self._nodes,
            dropped=self._dropped,
            forsaken=frozenset(self._forsaken),
        )

    # -- what happens

    def revise(self, plan: Plan) -> None:
        """Another plan holds."""
        self._plan = plan
        self.ledger.revise(plan)
        self.observed.revise(plan)
        self._nodes.update((placement.name, placement.host) for placement in plan.placements)
        self._actors |= {placement.name for placement in plan.of_role(Role.ACTOR)}
        there = {placement.name for placement in plan.placements}
        self._dropped.update((name, plan.revision) for name in self._nodes.keys() - there - self._dropped.keys())
        self._close()

    def take(self, report: Report, now: float) -> None:
        """Fold one report in."""
        self._away.pop(report.node, None)
        self._heard_at[report.node] = now
        self._revisions[report.node] = report.revision
        known = [each for each in report.components if self._is_of(report.node, each.name)]
        self._reports.update((component.name, component) for component in known)
        self._couriers[report.node] = tuple(c for c in report.components if c.role is Role.COURIER)
        self._links[report.node] = report.links
        self.ledger.take(report.node, report.rings)
        self.observed.take(report.components, now)
        for episode in report.episodes:
            if episode.component in self._actors:
                self.rewards.add(episode.episode_return)
        self._close()
        self._count()
        # A resumed learner's counters jump to where they were, and all of them do after a coordinator's absence: rates
        # are measured only once that has happened.
        self._learning = self._learning or (self._heard_all() and self._all_learn())
        if self._learning:
            self.lags.add(self._lag_histogram(), now)
            self.paces.take(known, now)

    def _is_of(self, node: str, name: str) -> bool:
        return self._nodes.get(name) == node and name not in self._forsaken

    def lose(self, node: str, reason: str) -> None:
        """A node is lost: what its components do there is not known."""
        self._away[node] = reason
        for name, report in self._reports.items():
            if self._nodes[name] == node and report.state not in _OVER:
                self._reports[name] = report.model_copy(
                    update={"state": ComponentState.AWAY, "reason": f"node {node} is lost", "beat_age_s": None}
                )
        self._couriers.pop(node, None)
        self._links.pop(node, None)

    def forsake(self, node: str) -> None:
        """A node has begun anew: what it ran is gone for good."""
        for name, report in self._reports.items():
            if self._nodes[name] == node:
                self._forsaken.add(name)
                self._reports[name] = report.model_copy(
                    update={"state": ComponentState.EXITED, "reason": f"node {node} has begun anew", "pid": None}
                )
        self._forsaken |= {name for name, host in self._nodes.items() if host == node}
        self._close()

    def _close(self) -> None:
        """Count what is gone for good, and know it no more."""
        if not self._dropped and not self.ledger.closing:
            return
        self.ledger.close(self._revisions, self._forsaken)
        for name, dropped in list(self._dropped.items()):
            if name in self._forsaken or self._revisions.get(self._nodes[name], 0) >= dropped:
                if (report := self._reports.pop(name, None)) is not None:
                    self._past = self._past.plus(report)
                del self._dropped[name], self._nodes[name]
        self._forsaken = {name for name in self._forsaken if name in self._nodes or self.ledger.holds(name)}
        self.paces.keep(self._nodes.keys())

    # -- what follows

    def _heard_all(self) -> bool:
        return {placement.host for placement in self._plan.placements} <= self._heard_at.keys() | self._away.keys()

    def _all_learn(self) -> bool:
        return all(
            self.state_of(learner)[0] in (ComponentState.RUNNING, ComponentState.AWAY)
            for learner in self._plan.of_role(Role.LEARNER)
        )

    def _count(self) -> None:
        learners, before, past = self.of_role(Role.LEARNER), self.progress, self._past
        steps, episodes = self._sum(Role.ACTOR, "env_steps"), self._sum(Role.ACTOR, "episodes")
        # Never backwards: a learner that is still loading its shard reports less than the run has made.
        self.progress = Progress(
            env_steps=max(before.env_steps, self._base.progress.env_steps + past.env_steps + steps),
            episodes=max(before.episodes, self._base.progress.episodes + past.episodes + episodes),
            updates=max(before.updates, past.updates + self._sum(Role.LEARNER, "updates")),
            version=max([before.version, *(learner.counters.get("version", 0) for learner in learners)]),
        )

    def _lag_histogram(self) -> tuple[int, ...]:
        """Of all samples that were used."""
        return add_histograms([self._past.lag_histogram, *(each.lag_histogram for each in self.of_role(Role.LEARNER))])

    def _sum(self, role: Role, counter: str) -> int:
        return sum(report.counters.get(counter, 0) for report in self.of_role(role))

    def of_role(self, role: Role) -> list[ComponentReport]:
        """The newest reports on the components of one kind."""
        return [report for report in self._reports.values() if report.role is role]

    def samples(self) -> tuple[Samples, int]:
        """The ledger of the whole run, and by how many samples its parts exceed what was produced (0 when sound)."""
        return self.ledger.samples(self._base.samples)

    def state_of(self, placement: Placement) -> tuple[ComponentState, str]:
        """Where one component of the plan stands, and why."""
        report = self._reports.get(placement.name)
        if report is not None:
            return report.state, report.reason
        if placement.host in self._away:
            return ComponentState.AWAY, f"node {placement.host} is lost"
        if placement.name in self._forsaken:
            return ComponentState.EXITED, f"node {placement.host} has begun anew"
        return ComponentState.PENDING, "not reported yet"

    def standings(self, cause_of: Callable[[str], str | None]) -> tuple[Standing, ...]:
        """Every component of the plan; one that no agent has reported is pending, or away with its node."""
        found = []
        for placement in self._plan.placements:
            state, reason = self.state_of(placement)
            found.append(
                Standing(
                    name=placement.name,
                    role=placement.role,
                    host=placement.host,
                    state=state,
                    reason=reason,
                    leaving=placement.leaving,
                    cause=cause_of(placement.name),
                )
            )
        return tuple(found)

    def all_gone(self, absent: Collection[str] = ()) -> bool:
        """Whether no component has a process, nor will have one; nodes of `absent` are not asked."""
        for placement in self._plan.placements:
            report = self._reports.get(placement.name)
            if placement.host in absent or placement.name in self._forsaken:
                continue
            if report is None or report.pid is not None or report.state not in _OVER:
                return False
        return True


def _shortened(report: ComponentReport) -> ComponentReport:
    """What counts of it; the rest is only shown."""
    counters = {name: count for name, count in report.counters.items() if count}
    return report.model_copy(update={"counters": counters, "gauges": {}})
