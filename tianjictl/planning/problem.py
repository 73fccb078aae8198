"""The planning problem: everything the solver may know, as numbers. Pure: no clock, no files.

Every limit is a field that `dataclasses.replace` can change, so that a limit's worth is found by solving again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime.contract.forecast import Charges
from runtime.contract.rates import HostRates, LearnerSpeed
from runtime.contract.shape import Shape
from runtime.contract.sizings import USUAL, Sizing
from runtime.contract.states import Role

if TYPE_CHECKING:
    from runtime.contract.plan import Sizes
    from tianjictl.planning.node import Node

#: What stands in where nothing was measured: a learner on one core keeps up with four actors, as in the published
#: series L1A4, L2A8, …, and gains with the square root of its cores. Actors leave a little of their core to others. The
#: unit of time is invented.
NOMINAL = HostRates(
    actor_steps_per_s=1.0,
    actor_cpu_s_per_step=0.9,
    learner=tuple(
        LearnerSpeed(cores=cores, samples_per_s=4.0 * cores**0.5, cpu_s_per_sample=0.25 * cores**0.5)
        for cores in (1, 2, 4, 8, 16, 32, 64)
    ),
    buffer_cpu_s_per_step=0.0,
    receive_s_per_step=0.0,
    courier_cpu_s_per_step=0.05,
)
_CHARGES = Charges()


@dataclass(frozen=True, slots=True)
class MemoryNeeds:
    """Bytes that one component of each kind takes, and what each node takes once."""

    actor: int
    learner: int  #: with its buffer
    once: int

    def of(self, learners: int, actors: int) -> int:
        return self.once + learners * self.learner + actors * self.actor


@dataclass(frozen=True, slots=True)
class Choice:
    """Sizes that may be planned with: what components need and how fast each node is with them."""

    sizing: Sizing
    memory: MemoryNeeds
    rates: tuple[HostRates | None, ...]  #: of every node, in the problem's order
    sizes: Sizes | None = None  #: what they come to for the smallest shape, to be told


@dataclass(frozen=True, slots=True)
class OpenedChoices:
    """What a job would leave to be chosen if one number of it were not there."""

    key: str  #: of the job, `training.batch_size`
    value: float
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """What to place and where, the head first. None for a count means: choose it."""

    nodes: tuple[Node, ...]
    learners: int | None
    actors: int | None
    learner_cores: int | None
    least: Shape | None  #: elastic range, of a free shape
    most: Shape | None
    oversubscribe: bool
    evaluator: bool
    ratio: float  #: samples trained on per environment step: 1 on-policy, the pace rule's target otherwise
    turns: bool  #: actors and learners take turns instead of working side by side
    memory: MemoryNeeds
    bytes_per_step: int  #: of a step that crosses to another node
    charges: Charges = _CHARGES
    sizing: Sizing = USUAL  #: the sizes that all of it is stated for
    choices: tuple[Choice, ...] = ()  #: other sizes, the nearest to the usual first
    opened: tuple[OpenedChoices, ...] = ()  #: what an explanation may try
    usual: Problem | None = None  #: the problem with the usual sizes and all choices, where this one left them

    @property
    def num_cores(self) -> int:
        return sum(len(node.cores) for node in self.nodes)

    @property
    def measured(self) -> bool:
        """Whether every node was, so that something can be predicted."""
        return all(node.rates is not None for node in self.nodes)

    def rates(self, node: Node) -> HostRates:
        """As measured; nominal for all nodes where one of them was not."""
        return node.rates if node.rates is not None and self.measured else NOMINAL

    def at(self, choice: Choice) -> Problem:
        """The problem narrowed to other sizes."""
        nodes = tuple(replace(node, rates=rates) for node, rates in zip(self.nodes, choice.rates, strict=True))
        return replace(
            self, nodes=nodes, memory=choice.memory, sizing=choice.sizing, choices=(), usual=self.usual or self
        )

    @property
    def where(self) -> str:
        """What the nodes are called together."""
        return self.nodes[0].name if len(self.nodes) == 1 else "the inventory"

    @property
    def evaluator_node(self) -> int | None:
        """The first node that may hold the evaluator, else the first that may hold a learner."""
        if not self.evaluator:
            return None
        for role in (Role.EVALUATOR, Role.LEARNER):
            for index, node in enumerate(self.nodes):
                if node.may(role):
                    return index
        return 0

    def standing(self, index: int) -> float:
        """Core shares of one node for agent, coordinator and couriers at rest, whatever flows."""
        return self.charges.standing(len(self.nodes), head=index == 0)

    def light(self, index: int) -> float:
        """The same with the evaluator; buffers and couriers at work are charged by what flows."""
        return self.standing(index) + (self.charges.evaluator if index == self.evaluator_node else 0.0)

    def learner_core_choices(self) -> tuple[int, ...]:
        """Cores per learner that may be chosen, rising: only counts whose speed is known."""
        if self.learner_cores is not None:
            return (self.learner_cores,)
        if not self.measured:
            return (1,)
        able = [node for node in self.nodes if node.may(Role.LEARNER)]
        most = max((len(node.cores) for node in able), default=1)
        known = {speed.cores for node in able for speed in self.rates(node).learner}
        return tuple(sorted(cores for cores in known if cores <= most)) or (1,)

    @property
    def smallest(self) -> Shape:
        """The fewest learners and actors that the request allows; they need not fit."""
        learners = self.learners if self.learners is not None else self.least.learners if self.least else 1
        actors = self.actors if self.actors is not None else max(self.least.actors if self.least else 1, learners)
        return Shape(learners, actors)

    def allows(self, learners: int, actors: int) -> bool:
        """Whether the request and the elastic range allow these counts; a group has at least one actor."""
        return (
            1 <= learners <= actors
            and self.learners in (None, learners)
            and self.actors in (None, actors)
            and (self.least is None or Shape(learners, actors).covers(self.least))
            and (self.most is None or self.most.covers(Shape(learners, actors)))
        )
