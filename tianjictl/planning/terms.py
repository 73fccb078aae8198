"""The terms of one node in the model, for one number of cores per learner: what it can hold and what that gives.

Rates are environment steps per second. Nodes with equal terms are interchangeable.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, inf
from typing import TYPE_CHECKING

from runtime.contract.states import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.planning.node import Node
    from tianjictl.planning.problem import Problem

_MEGA = 1e6


@dataclass(frozen=True, slots=True)
class Terms:
    """One node. `time`: core time beside what is always charged (agent, evaluator, couriers at rest)."""

    cores: int
    learner_cores: int
    learner_counts: tuple[int, ...]  #: how many learners it may have, rising from 0
    acts: bool  #: whether actors may run there
    memory: int  #: bytes left for components
    learner_memory: int
    actor_memory: int
    time: float
    actor_rate: float
    actor_cpu: float  #: core seconds per step, like all that follow
    group_rate: float  #: what one learner and its buffer can take
    train_cpu: float  #: of a learner; counts where it has to share its cores
    buffer_cpu: float
    courier_cpu: float  #: at this end, of a step that crosses
    network: float  #: steps that can leave per second, and as many that can come; inf where no limit is known

    @property
    def full(self) -> int | None:
        """The number of learners that leaves no core to anybody: they share theirs with what is light."""
        most = self.learner_counts[-1]
        return most if most and most * self.learner_cores == self.cores else None

    def actors_beside(self, learners: int) -> int:
        """The most actors beside so many learners."""
        if not self.acts:
            return 0
        by_memory = (self.memory - learners * self.learner_memory) // self.actor_memory
        return max(0, min(self.cores - learners * self.learner_cores, by_memory))

    def time_left(self, learners: int) -> float:
        """Core time beside so many learners; where they are full, the time that they share with the rest."""
        return self.time if learners == self.full else self.time - learners * self.learner_cores


def terms_of(problem: Problem, learner_cores: int) -> tuple[Terms, ...]:
    """Every node's terms, in the problem's order."""
    return tuple(_terms(problem, index, node, learner_cores) for index, node in enumerate(problem.nodes))


def fastest_actor(terms: Sequence[Terms]) -> float:
    """Steps per second of an actor where it is fastest: what a group can hope for from each of its actors."""
    return max((each.actor_rate for each in terms if each.acts), default=0.0)


def _terms(problem: Problem, index: int, node: Node, learner_cores: int) -> Terms:
    rates, needs = problem.rates(node), problem.memory
    speed = rates.learner_on(learner_cores)
    time = round(node.capacity - problem.light(index), 9)  # sums of shares are not exact
    memory = max(0, node.usable_memory - needs.once)
    received = 1.0 / rates.receive_s_per_step if rates.receive_s_per_step > 0 else inf
    return Terms(
        cores=len(node.cores),
        learner_cores=learner_cores,
        learner_counts=_learner_counts(node, learner_cores, time, min(memory // needs.learner, _asked(problem))),
        acts=node.may(Role.ACTOR),
        memory=memory,
        learner_memory=needs.learner,
        actor_memory=needs.actor,
        time=time,
        actor_rate=rates.actor_steps_per_s,
        actor_cpu=rates.actor_cpu_s_per_step,
        group_rate=min(speed.samples_per_s / problem.ratio, received),
        train_cpu=problem.ratio * speed.cpu_s_per_sample,
        buffer_cpu=rates.buffer_cpu_s_per_step,
        courier_cpu=rates.courier_cpu_s_per_step,
        network=inf if node.mb_per_s is None else node.mb_per_s * _MEGA / problem.bytes_per_step,
    )


def _asked(problem: Problem) -> int:
    """No node needs to hold more learners than there may be in all."""
    if problem.learners is not None:
        return problem.learners
    return problem.most.learners if problem.most is not None else problem.num_cores


def _learner_counts(node: Node, cores: int, time: float, limit: int) -> tuple[int, ...]:
    """Learners need cores, memory, and have to leave time for what is light unless they share theirs with it."""
    if not node.may(Role.LEARNER):
        return (0,)
    most = min(node.learner_places(cores), limit)
    beside = max(0, min(most, floor(time / cores)))
    counts = tuple(range(beside + 1))
    takes_all = beside < most and most * cores == len(node.cores) and time > 0
    return (*counts, most) if takes_all else counts
