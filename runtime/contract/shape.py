"""Shape: how many learners and actors a run has in total, written `L2A8`."""

from __future__ import annotations

import re
from typing import NamedTuple

_PATTERN = re.compile(r"L(0|[1-9]\d*)A(0|[1-9]\d*)")


class Shape(NamedTuple):
    """Learners and actors in total; a group is one learner with its buffer and its share of the actors."""

    learners: int
    actors: int

    @classmethod
    def parse(cls, text: str) -> Shape:
        """Read `L2A8`; ValueError says what was expected."""
        match = _PATTERN.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a shape: write L<learners>A<actors>, for example L2A8")
        shape = cls(int(match[1]), int(match[2]))
        if not shape.learners or not shape.actors:
            raise ValueError(f"{text}: a shape has at least one learner, and an actor for each")
        if shape.actors < shape.learners:
            raise ValueError(f"{text}: each learner needs at least one actor of its own")
        return shape

    def __str__(self) -> str:
        return f"L{self.learners}A{self.actors}"

    def covers(self, other: Shape) -> bool:
        """Whether it has no fewer of anything."""
        return self.learners >= other.learners and self.actors >= other.actors

    def actors_of_group(self, group: int) -> int:
        """Actors of one group; the first groups take the remainder when the split is uneven."""
        return share(self.actors, self.learners, group)


def share(total: int, parts: int, index: int) -> int:
    """Part `index` of a total that is split as evenly as whole numbers allow; all parts add up to it."""
    return total // parts + (1 if index < total % parts else 0)
