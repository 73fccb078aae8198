"""A choice of counts, and what it gives: the one place that knows how throughput follows from counts and rates."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from runtime.contract.shape import Shape
from tianjictl.planning.problem import MOST_PER_CORE

if TYPE_CHECKING:
    from tianjictl.planning.problem import Problem, Rates


@dataclass(frozen=True, slots=True, order=True)
class Choice:
    """How many of each, in total over all groups."""

    learners: int
    learner_cores: int
    actors: int

    @property
    def shape(self) -> Shape:
        return Shape(self.learners, self.actors)

    @property
    def cores(self) -> int:
        """Whole cores it asks for."""
        return self.learners * self.learner_cores + self.actors


@dataclass(frozen=True, slots=True)
class Solution:
    """What was chosen, and how sure it is that nothing is better: the words of `Plan.solver`."""

    choice: Choice
    proof: str


@dataclass(frozen=True, slots=True)
class Sharing:
    """How core time is divided. With `exclusive` learners keep their cores and the rest share what is left."""

    exclusive: bool
    cores: float  #: core time that the sharing components have together
    demand: float  #: core shares that they are charged for

    @property
    def factor(self) -> float:
        """Share of its charge that each gets."""
        return min(1.0, self.cores / self.demand)


@dataclass(frozen=True, slots=True)
class Throughput:
    """Limits in samples trained on per second; `achieved` is what the run should reach."""

    learners: float  #: T_RL
    actors: float  #: T_RA, times the samples trained on per environment step
    receivers: float  #: what the buffers can take, a core each
    achieved: float

    @property
    def balanced(self) -> float:
        """The planner's objective: min(T_RL, T_RA)."""
        return min(self.learners, self.actors, self.receivers)


def sharing_of(problem: Problem, choice: Choice) -> Sharing:
    """Learners come first: they get cores of their own unless that leaves nothing for the rest."""
    learner_cores = choice.learners * choice.learner_cores
    others = choice.actors + problem.light(choice.learners)
    rest = problem.host.capacity - learner_cores
    if rest >= 1.0:
        return Sharing(exclusive=True, cores=rest, demand=others)
    return Sharing(exclusive=False, cores=problem.host.capacity, demand=learner_cores + others)


def is_oversubscribed(problem: Problem, choice: Choice) -> bool:
    """Whether more whole cores are asked for than there are, or than roles leave to them."""
    return choice.cores > problem.num_cores or not fits_hosts(problem, choice)


def fits_hosts(problem: Problem, choice: Choice) -> bool:
    """Whether several hosts can hold it on cores of their own: a learner inside one host, and all where they may be."""
    return not problem.pools or (
        choice.learners <= problem.learner_room(choice.learner_cores)
        and choice.actors <= min(problem.cores_for_actors, problem.actor_room(choice.learners, choice.learner_cores))
    )


def oversubscription(problem: Problem, choice: Choice) -> float:
    """Core shares charged per core there is; 0 where no learner or actor has to share with another."""
    if not is_oversubscribed(problem, choice):
        return 0.0
    return (choice.cores + problem.light(choice.learners)) / problem.host.capacity


def fits(problem: Problem, choice: Choice) -> bool:
    """Whether the counts respect cores, memory, the elastic range and one actor per learner."""
    cores = problem.num_cores
    room = cores * MOST_PER_CORE if problem.oversubscribe else cores
    return (
        choice.learners <= choice.actors
        and choice.learner_cores <= cores
        and choice.cores <= room
        and (fits_hosts(problem, choice) or (problem.oversubscribe and problem.cores_for_actors > 0))
        and problem.fits_memory(choice.learners, choice.actors)
        and problem.within_bounds(choice.learners, choice.actors)
    )


def throughput(problem: Problem, choice: Choice, rates: Rates) -> Throughput:
    """Predict from measured rates.

    The time of the cores that actors share with the light components bounds x, the environment steps per second:
    x·(1/r_A + b) + light ≤ cores, where r_A is an actor's rate on a whole core and b the buffer's cost per step.
    """
    ratio, sharing = problem.trained_per_step, sharing_of(problem, choice)
    per_step = 1.0 / rates.actor_steps_per_s + rates.buffer_s_per_step
    one_learner = rates.learner(choice.learner_cores)
    time = max(sharing.cores - problem.fixed_light, 0.05 * sharing.cores)
    if not sharing.exclusive:
        # Everything runs on the same cores: a sample costs its learner's core seconds too.
        per_step += ratio * choice.learner_cores / one_learner
    learners = choice.learners * one_learner
    actors = ratio * min(choice.actors * rates.actor_steps_per_s, time / per_step)
    receivers = ratio * choice.learners / rates.buffer_s_per_step if rates.buffer_s_per_step > 0 else inf
    achieved = min(learners, actors, receivers)
    if problem.turns:
        achieved = 1.0 / (1.0 / learners + 1.0 / min(actors, receivers))
    return Throughput(learners=learners, actors=actors, receivers=receivers, achieved=achieved)
