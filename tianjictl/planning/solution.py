"""What was decided: how many of each go to which node, what that gives, and how sure it is that nothing is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from runtime.contract.shape import Shape

ALIKE = 1e-6  #: throughputs that differ by less than this part count as equal


class Counts(NamedTuple):
    """What one node is given."""

    learners: int  #: groups at home there
    larger: int  #: of those, the ones with an actor more than the others
    actors: int  #: for whichever group


@dataclass(frozen=True, slots=True)
class Solution:
    """Counts of every node in the problem's order.

    `value`: samples per second that the model expects of it; `bound`: what no other choice can exceed. Both are in
    invented units where nothing was measured, and 0 where cores are shared (`forecast` tells what that gives).
    """

    nodes: tuple[Counts, ...]
    learner_cores: int
    value: float
    bound: float
    proof: str  #: words of `Plan.solver`
    shared: bool = False  #: components have to share cores

    @property
    def shape(self) -> Shape:
        """Learners and actors in total."""
        return Shape(sum(counts.learners for counts in self.nodes), sum(counts.actors for counts in self.nodes))

    @property
    def cores(self) -> int:
        """Whole cores it asks for."""
        return self.shape.learners * self.learner_cores + self.shape.actors

    @property
    def least_group(self) -> int:
        """Actors of the smaller groups."""
        return self.shape.actors // self.shape.learners

    def demand(self, node: int) -> int:
        """Actors that the groups at home on one node need."""
        counts = self.nodes[node]
        return counts.learners * self.least_group + counts.larger

    @property
    def crossing(self) -> tuple[int, ...]:
        """Of each node: its actors that work for groups elsewhere. A group takes those of its own node first."""
        return tuple(max(0, counts.actors - self.demand(index)) for index, counts in enumerate(self.nodes))
