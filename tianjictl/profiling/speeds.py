"""How fast one host is with any sizes: measured with the usual ones, and carried over to others by what changes. Pure.

The cost of a vector step is a line over the environments in it, that of an update a line over its samples: both have a
part that does not depend on how many there are. Between what was measured costs lie on these lines; beyond it they are
taken to be proportional, so that nothing is promised that nobody has seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from runtime.contract.rates import HostRates, LearnerSpeed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.contract.measurement import ActorRate, MeasureReport, Spread
    from runtime.contract.plan import Sizes


class At(NamedTuple):
    """The sizes that costs depend on."""

    num_envs: int
    batch_size: int

    @classmethod
    def of(cls, sizes: Sizes) -> At:
        return cls(sizes.num_envs, sizes.batch_size)


@dataclass(frozen=True, slots=True)
class Speeds:
    """One host: a profile, and what a run has measured since."""

    report: MeasureReport
    observed: HostRates | None = None
    observed_at: At | None = None  #: sizes of that run; none: those of the profile

    @property
    def scales(self) -> bool:
        """Whether it is known what other sizes cost."""
        return len(self.report.by_turns) > 1

    def at(self, sizes: Sizes | None = None) -> HostRates:
        """Rates with these sizes; without any, with those of the profile. Those, too, where no others are known."""
        wanted = host_rates(self.report, None if sizes is None else At.of(sizes))
        if self.observed is None:
            return wanted
        return _scaled(self.observed, host_rates(self.report, self.observed_at), wanted)


def host_rates(report: MeasureReport, at: At | None = None) -> HostRates:
    """What a forecast needs of a host: costs of one step, with neighbours as busy as they were in the measurement."""
    usual = report.actors[0].num_envs
    fragment = report.fragment_samples
    actor = _beside_most(report, usual)
    wall, cpu = _step(actor)
    training = receiving = 1.0
    if at is not None and report.by_turns:
        training, receiving = _factors(report, at.batch_size)
        steps = {number: _step(_beside_most(report, number)) for number in sorted({r.num_envs for r in report.actors})}
        wall = _each(at.num_envs, [(number, each[0]) for number, each in steps.items()])
        cpu = _each(at.num_envs, [(number, each[1]) for number, each in steps.items()])
    return HostRates(
        actor_steps_per_s=1.0 / wall,
        actor_cpu_s_per_step=cpu,
        learner=tuple(
            LearnerSpeed(
                cores=rate.cores,
                samples_per_s=rate.samples_per_s.median / training,
                cpu_s_per_sample=_cost(rate.cpu_s_per_sample, rate.cores / rate.samples_per_s.median) * training,
            )
            for rate in report.learners
        ),
        buffer_cpu_s_per_step=_cost(report.buffer_cpu_s_per_fragment, report.buffer_s_per_fragment.median)
        / fragment
        * receiving,
        receive_s_per_step=report.buffer_s_per_fragment.median / fragment * receiving,
        courier_cpu_s_per_step=_cost(report.courier_cpu_s_per_fragment, 0.0) / fragment,
    )


def _beside_most(report: MeasureReport, num_envs: int) -> ActorRate:
    """An actor with so many environments, its neighbours as busy as they ever were."""
    own = [rate for rate in report.actors if rate.num_envs == num_envs]
    return max(own, key=lambda rate: rate.busy_neighbours)


def _step(actor: ActorRate) -> tuple[float, float]:
    """Wall and core seconds of one step of one environment."""
    wall = 1.0 / actor.steps_per_s.median
    return wall, _cost(actor.cpu_s_per_step, wall)


def _factors(report: MeasureReport, batch: int) -> tuple[float, float]:
    """How many times as much a sample costs a learner with batches of another size, and a step a buffer.

    A buffer draws batches for what it receives, so its cost for a batch is a line, too.
    """
    usual = report.by_turns[0]
    rollout = report.fragment_samples // usual.num_envs
    turns = sorted(report.by_turns, key=lambda turn: turn.batch_size)
    training = [(turn.batch_size, turn.learner_s_per_sample) for turn in turns]
    receiving = [(turn.batch_size, turn.buffer_s_per_fragment / (rollout * turn.num_envs)) for turn in turns]
    return _times(batch, usual.batch_size, training), _times(batch, usual.batch_size, receiving)


def _times(count: int, usual: int, known: Sequence[tuple[int, float]]) -> float:
    return _each(count, known) / _each(usual, known)


def _each(count: int, known: Sequence[tuple[int, float]]) -> float:
    """The cost of one of `count` that are dealt with together, from what one costs of other numbers, rising."""
    (fewest, first), (most, last) = known[0], known[-1]
    if count >= most:
        return last
    if count <= fewest:
        if len(known) == 1:
            return first
        (more, cost), each = known[1], first * fewest
        slope = (cost * more - each) / (more - fewest)
        # Fewer cannot cost less each than many do, and not less together than nothing.
        return max(first, (each - slope * (fewest - count)) / count)
    for (below, low), (above, high) in pairwise(known):
        if count <= above:
            part = (count - below) / (above - below)
            return (low * below + part * (high * above - low * below)) / count
    raise AssertionError


def _scaled(observed: HostRates, before: HostRates, wanted: HostRates) -> HostRates:
    """What was observed, with what the profile says of the way from the sizes then to those that are wanted."""
    if before == wanted:
        return observed

    def times(name: str) -> float:
        old = getattr(before, name)
        return float(getattr(wanted, name) / old if old > 0 else 1.0)

    cores = before.learner[0].cores
    training = wanted.learner_on(cores).samples_per_s / before.learner_on(cores).samples_per_s
    numbers = {name: getattr(observed, name) * times(name) for name in _NUMBERS}
    learner = tuple(
        LearnerSpeed(
            cores=speed.cores,
            samples_per_s=speed.samples_per_s * training,
            cpu_s_per_sample=speed.cpu_s_per_sample / training,
        )
        for speed in observed.learner
    )
    return observed.model_copy(update={"learner": learner, **numbers})


_NUMBERS = ("actor_steps_per_s", "actor_cpu_s_per_step", "buffer_cpu_s_per_step", "receive_s_per_step")


def _cost(measured: Spread | None, otherwise: float) -> float:
    return otherwise if measured is None else measured.median
