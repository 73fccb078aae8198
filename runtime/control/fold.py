"""All that the agents' reports have said so far, folded into the numbers of the whole run. Pure: `now` is passed in.

Counting over resumes: a learner's and a buffer's counters come back with their shards, so their reports already count
the whole run. Actors keep no shard of their counters: their env steps and episodes count from 0 in each attempt, as do
all rings. `Base` holds what earlier attempts have made; it is added here and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.messages import ComponentReport, Report, RingLedger
from runtime.contract.model import View
from runtime.contract.states import ComponentState, Role
from runtime.contract.view import Progress, Samples
from runtime.control.rewards import RewardRecord, Rewards
from runtime.control.run_state import Standing
from runtime.control.window import Totals, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.contract.plan import Plan


class Base(View):
    """What the run had done before this attempt."""

    progress: Progress = Progress()
    samples: Samples = Samples()
    elapsed_s: float = 0.0
    rewards: RewardRecord = RewardRecord()


class Fold:
    """The newest word on every component, and what follows from all of them together."""

    def __init__(self, plan: Plan, base: Base, so_far: Progress | None = None) -> None:
        """`so_far` is what an earlier coordinator of this attempt had counted."""
        self._plan = plan
        self._base = base
        self._on_policy = plan.job.on_policy
        self._reports: dict[str, ComponentReport] = {}
        self._rings: dict[str, RingLedger] = {}
        self._heard_at: dict[str, float] = {}
        self._learning = False
        self._actors = {placement.name for placement in plan.of_role(Role.ACTOR)}
        self.rewards = Rewards(base.rewards)
        self.window = Window()
        self.progress = so_far or base.progress

    @property
    def base(self) -> Base:
        return self._base

    @property
    def reports(self) -> Mapping[str, ComponentReport]:
        """The newest report on each component, by name."""
        return self._reports

    @property
    def heard_at(self) -> Mapping[str, float]:
        """When each node last reported."""
        return self._heard_at

    def take(self, report: Report, now: float) -> None:
        """Fold one report in."""
        self._heard_at[report.node] = now
        self._reports.update((component.name, component) for component in report.components)
        self._rings.update(report.rings)
        for episode in report.episodes:
            if episode.component in self._actors:
                self.rewards.add(episode.episode_return)
        self._count()
        # A resumed learner's counters jump to where they were: rates are measured only once that has happened.
        self._learning = self._learning or all(
            learner.state is ComponentState.RUNNING for learner in self.of_role(Role.LEARNER)
        )
        if self._learning:
            self.window.add(self._totals(), now)

    def _count(self) -> None:
        learners, before = self.of_role(Role.LEARNER), self.progress
        # Never backwards: a learner that is still loading its shard reports less than the run has made.
        self.progress = Progress(
            env_steps=max(before.env_steps, self._base.progress.env_steps + self._sum(Role.ACTOR, "env_steps")),
            episodes=max(before.episodes, self._base.progress.episodes + self._sum(Role.ACTOR, "episodes")),
            updates=max(before.updates, self._sum(Role.LEARNER, "updates")),
            version=max([before.version, *(learner.counters.get("version", 0) for learner in learners)]),
        )

    def _totals(self) -> Totals:
        histograms = [learner.lag_histogram for learner in self.of_role(Role.LEARNER) if learner.lag_histogram]
        return Totals(
            env_steps=self.progress.env_steps,
            updates=self.progress.updates,
            samples_trained=self._sum(Role.LEARNER, "samples_trained"),
            samples_produced=self.samples()[0].produced,
            lag_histogram=tuple(map(sum, zip(*histograms, strict=True))) if histograms else (),
        )

    def _sum(self, role: Role, counter: str) -> int:
        return sum(report.counters.get(counter, 0) for report in self.of_role(role))

    def of_role(self, role: Role) -> list[ComponentReport]:
        """The newest reports on the components of one kind."""
        return [report for report in self._reports.values() if report.role is role]

    def samples(self) -> tuple[Samples, int]:
        """The ledger of the whole run, and by how many samples its parts exceed what was produced (0 when sound)."""
        return ledger(self._rings, self._base.samples, on_policy=self._on_policy)

    def standings(self, cause_of: Callable[[str], str | None]) -> tuple[Standing, ...]:
        """Every component of the plan; one that no agent has reported is pending."""
        found = []
        for placement in self._plan.placements:
            report = self._reports.get(placement.name)
            state, reason = (report.state, report.reason) if report else (ComponentState.PENDING, "not reported yet")
            found.append(
                Standing(
                    name=placement.name,
                    role=placement.role,
                    state=state,
                    reason=reason,
                    cause=cause_of(placement.name),
                )
            )
        return tuple(found)

    def all_gone(self) -> bool:
        """Whether every component of the plan has been reported and none has a process, nor will have one."""
        over = (ComponentState.EXITED, ComponentState.FAILED)
        found = [self._reports.get(placement.name) for placement in self._plan.placements]
        return all(report is not None and report.pid is None and report.state in over for report in found)


def resumed(base: Base) -> Base:
    """`base` as a new attempt must see it: samples that were in flight at the cut are gone with the rings."""
    lost = base.samples.in_flight
    samples = base.samples.model_copy(update={"in_flight": 0, "dropped_other": base.samples.dropped_other + lost})
    return base.model_copy(update={"samples": samples})


def ledger(rings: Mapping[str, RingLedger], base: Samples, *, on_policy: bool) -> tuple[Samples, int]:
    """produced = consumed + dropped + in_flight, from the rings' own counts.

    Produced is what was committed to the fragment rings. On-policy, a sample is consumed when the learner releases its
    batch; off-policy, when it has entered the replay memory. The second value is by how much the parts exceed what was
    produced; it is 0 unless a ring was read half-way through something impossible.
    """
    fragments = [ring for name, ring in rings.items() if name.startswith("fragments.")]
    batches = [ring for name, ring in rings.items() if name.startswith("batches.")] if on_policy else []
    produced = base.produced + sum(ring.produced for ring in fragments)
    consumed = base.consumed + sum(ring.consumed for ring in (batches if on_policy else fragments))
    stale = base.dropped_stale + sum(ring.dropped_stale for ring in (*fragments, *batches))
    other = base.dropped_other + sum(ring.dropped_other for ring in (*fragments, *batches))
    rest = produced - consumed - stale - other
    samples = Samples(
        produced=max(produced, produced - rest),
        consumed=consumed,
        dropped_stale=stale,
        dropped_other=other,
        in_flight=max(0, rest),
    )
    return samples, max(0, -rest)
