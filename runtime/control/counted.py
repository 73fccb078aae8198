"""What a run has counted before: in earlier attempts, by who is gone, under a coordinator before this one."""

from __future__ import annotations

from pydantic import Field

from runtime.contract.messages import ComponentReport
from runtime.contract.model import View
from runtime.contract.states import Role
from runtime.contract.view import Progress, Samples
from runtime.control.ledger import Books
from runtime.control.rewards import RewardRecord


class Past(View):
    """What components that are gone had counted; in a manifest, of learners of all attempts."""

    env_steps: int = 0
    episodes: int = 0
    updates: int = 0
    samples_trained: int = 0
    lag_histogram: tuple[int, ...] = ()

    def plus(self, report: ComponentReport) -> Past:
        """With the counters of one more; of an actor or a learner."""
        if report.role is Role.ACTOR:
            steps, episodes = report.counters.get("env_steps", 0), report.counters.get("episodes", 0)
            return self.model_copy(update={"env_steps": self.env_steps + steps, "episodes": self.episodes + episodes})
        if report.role is Role.LEARNER:
            return self.model_copy(
                update={
                    "updates": self.updates + report.counters.get("updates", 0),
                    "samples_trained": self.samples_trained + report.counters.get("samples_trained", 0),
                    "lag_histogram": add_histograms([self.lag_histogram, report.lag_histogram]),
                }
            )
        return self


class Base(View):
    """What the run had done before this attempt."""

    progress: Progress = Progress()
    samples: Samples = Samples()
    elapsed_s: float = 0.0
    rewards: RewardRecord = RewardRecord()
    past: Past = Past()


class Memory(View):
    """What no agent would tell a coordinator that takes over."""

    books: Books = Books()
    past: Past = Past()
    reports: tuple[ComponentReport, ...] = ()  #: the newest word on each component
    nodes: dict[str, str] = Field(default_factory=dict)  #: component → its node
    dropped: dict[str, int] = Field(default_factory=dict)  #: component → the first revision without it
    forsaken: frozenset[str] = frozenset()


def add_histograms(histograms: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Bin by bin; empty ones count for nothing."""
    there = [histogram for histogram in histograms if histogram]
    return tuple(map(sum, zip(*there, strict=True))) if there else ()


def resumed(base: Base) -> Base:
    """`base` as a new attempt must see it: samples that were in flight at the cut are gone with the rings."""
    lost = base.samples.in_flight
    samples = base.samples.model_copy(update={"in_flight": 0, "dropped_other": base.samples.dropped_other + lost})
    return base.model_copy(update={"samples": samples})
