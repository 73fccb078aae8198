"""A plan with one limit relaxed: what it would reach then. Pure.

Speeds and networks are relaxed where the components are; hardware and the request are relaxed by deciding again. Small
problems are decided exactly, placed and forecast. Of large ones the quick placement is compared with the quick
placement of what is, so that an explanation takes seconds at most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from runtime.contract.forecast import forecast
from runtime.contract.plan import HostPlan
from runtime.contract.shape import Shape
from runtime.contract.states import Dependencies, Role
from tianjictl.planning.decide import WORTH, bound_of, solve
from tianjictl.planning.flows import steps_per_s
from tianjictl.planning.greedy import grow
from tianjictl.planning.placement import place
from tianjictl.planning.recipes import recipes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.contract.forecast import Forecast
    from runtime.contract.plan import Plan, Sizes
    from runtime.contract.rates import HostRates, LearnerSpeed
    from tianjictl.planning.node import Node
    from tianjictl.planning.problem import OpenedChoices, Problem
    from tianjictl.planning.solution import Solution

_SMALL_NODES, _SMALL_CORES = 4, 64  #: problems that are decided again a dozen times within a second or two
_EFFORT = 0.05  #: of what a plan is given: an explanation needs no proof
_NOISE = 1e-3  #: differences below this part are none


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a changed problem leads to."""

    shape: Shape
    learner_cores: int
    samples_per_s: float
    shared: bool  #: components share cores

    @property
    def cores(self) -> int:
        """Whole cores it asks for."""
        return self.shape.learners * self.learner_cores + self.shape.actors


@dataclass(frozen=True, slots=True)
class Opening:
    """What a number of the job keeps the plan from: sizes that could be chosen without it, and what they lead to."""

    key: str  #: of the job, `training.batch_size`
    value: float
    sizes: Sizes
    outcome: Outcome


@dataclass(frozen=True)
class Case:
    """A plan that was made for a problem whose nodes were all measured."""

    problem: Problem
    solution: Solution
    plan: Plan
    rates: dict[str, HostRates]  #: of every node, as the plan's prediction takes them
    expected: Forecast

    @classmethod
    def of(cls, problem: Problem, solution: Solution, plan: Plan) -> Case | None:
        """None where nothing was measured."""
        if not problem.measured:
            return None
        rates = {node.name: plan.rates.get(node.name, problem.rates(node)) for node in problem.nodes}
        expected = forecast(plan, rates, problem.charges)
        return (
            None if expected is None or expected.samples_per_s <= 0 else cls(problem, solution, plan, rates, expected)
        )

    @property
    def samples_per_s(self) -> float:
        """What the plan should reach."""
        return self.expected.samples_per_s

    @property
    def small(self) -> bool:
        """Whether it can be decided again many times."""
        nodes = len(self.problem.nodes)
        return nodes == 1 or (nodes <= _SMALL_NODES and self.problem.num_cores <= _SMALL_CORES)

    @property
    def turns(self) -> bool:
        """Whether actors and learners take turns."""
        return self.plan.job.training.dependencies is not Dependencies.RELAXED

    def gain(self, samples_per_s: float) -> float:
        """0.25: a quarter more than the plan reaches."""
        part = samples_per_s / self.samples_per_s - 1.0
        return part if abs(part) >= _NOISE else 0.0

    # -- where the components are

    def with_rates(self, change: Callable[[HostRates], HostRates]) -> float:
        """Samples per second of the same plan on hosts of other speeds."""
        return self._forecast(self.plan, {name: change(found) for name, found in self.rates.items()})

    def with_hosts(self, change: Callable[[HostPlan], HostPlan]) -> float:
        """Samples per second of the same placement on hosts with other limits."""
        hosts = tuple(change(host) for host in self.plan.hosts)
        return self._forecast(self.plan.model_copy(update={"hosts": hosts}), self.rates)

    def with_actors_doubled(self, times: int) -> float:
        """Samples per second with so many actors for each that there is, on the same cores."""
        more = [p for p in self.plan.placements if p.role is Role.ACTOR for _ in range(times - 1)]
        plan = self.plan.model_copy(update={"placements": (*self.plan.placements, *more)})
        return self._forecast(plan, self.rates)

    def _forecast(self, plan: Plan, rates: Mapping[str, HostRates]) -> float:
        found = forecast(plan, rates, self.problem.charges)
        return 0.0 if found is None else found.samples_per_s

    # -- decided again

    def decided(self, problem: Problem) -> Outcome | None:
        """What another problem leads to; None where nothing fits."""
        return self._exactly(problem) if self.small else self._quickly(problem)

    def as_stated(self, problem: Problem) -> Outcome | None:
        """What a problem with other sizes leads to: by its own rates, and not by those of the plan."""
        if not self.small:
            return self._quickly(problem)
        return self._exactly(problem, {node.name: problem.rates(node) for node in problem.nodes})

    @cached_property
    def openings(self) -> tuple[Opening, ...]:
        """For each number by which the job bounds its sizes: the usual ones without it, or others that are worth it."""
        return tuple(found for each in self.problem.opened if (found := self._opening(each)) is not None)

    def _opening(self, opened: OpenedChoices) -> Opening | None:
        best: Opening | None = None
        seen = []
        for choice in opened.choices:
            if choice.rates in seen or choice.sizes is None:
                continue  # it differs by its buffer alone
            seen.append(choice.rates)
            narrowed = self.problem.at(choice)
            needed = self.samples_per_s if best is None else WORTH * best.outcome.samples_per_s
            outcome = self.as_stated(narrowed) if bound_of(narrowed) > needed else None
            if outcome is not None and outcome.samples_per_s > needed:
                best = Opening(opened.key, opened.value, choice.sizes, outcome)
        return best

    def _exactly(self, problem: Problem, given: Mapping[str, HostRates] | None = None) -> Outcome | None:
        solution = solve(problem, effort=_EFFORT)
        if solution is None:
            return None
        plan = self.plan.model_copy(
            update={
                "shape": str(solution.shape),
                "hosts": tuple(_host_plan(node) for node in problem.nodes),
                "placements": place(problem, solution).components,
            }
        )
        known = self.rates if given is None else given
        rates = {node.name: known.get(node.name, problem.rates(node)) for node in problem.nodes}
        reached = self._forecast(plan, rates)
        return Outcome(solution.shape, solution.learner_cores, reached, solution.shared)

    def _quickly(self, problem: Problem) -> Outcome | None:
        found, usual = _grown(problem), self._usual
        if found is None or usual is None or usual.samples_per_s <= 0:
            return None
        return replace(found, samples_per_s=self.samples_per_s * found.samples_per_s / usual.samples_per_s)

    @cached_property
    def _usual(self) -> Outcome | None:
        """The quick placement of the problem as it is, against which the others are held."""
        return _grown(self.problem)


def faster_actors(rates: HostRates, factor: float) -> HostRates:
    """Each step takes less time, and less core time."""
    return rates.model_copy(
        update={
            "actor_steps_per_s": rates.actor_steps_per_s * factor,
            "actor_cpu_s_per_step": rates.actor_cpu_s_per_step / factor,
        }
    )


def faster_learners(rates: HostRates, factor: float) -> HostRates:
    """With every number of cores."""

    def faster(speed: LearnerSpeed) -> LearnerSpeed:
        changed = {
            "samples_per_s": speed.samples_per_s * factor,
            "cpu_s_per_sample": speed.cpu_s_per_sample / factor,
        }
        return speed.model_copy(update=changed)

    return rates.model_copy(update={"learner": tuple(faster(speed) for speed in rates.learner)})


def faster_buffers(rates: HostRates, factor: float) -> HostRates:
    """In receiving, and in core time."""
    return rates.model_copy(
        update={
            "receive_s_per_step": rates.receive_s_per_step / factor,
            "buffer_cpu_s_per_step": rates.buffer_cpu_s_per_step / factor,
        }
    )


def _grown(problem: Problem) -> Outcome | None:
    known = recipes(problem)
    found = grow(problem, known) if known else None
    if found is None:
        return None
    recipe, counts = found
    learners, actors = sum(each.learners for each in counts), sum(each.actors for each in counts)
    reached = steps_per_s(recipe.terms, counts) * problem.ratio
    return Outcome(Shape(learners, actors), recipe.learner_cores, reached, shared=False)


def _host_plan(node: Node) -> HostPlan:
    """As far as a forecast looks at it."""
    return HostPlan(
        name=node.name,
        cores=tuple(core.cpu for core in node.cores),
        capacity=node.capacity,
        mb_per_s=node.mb_per_s,
    )
