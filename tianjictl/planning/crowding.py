"""What more components than cores would bring, though nobody asked to share cores. Pure.

Cores are shared only on request: a component that waits for its core reacts later, and a machine that is full leaves
nothing to others. But where actors wait for a learner or a simulator most of the time, it is worth knowing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tianjictl.planning.cause import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tianjictl.planning.relaxing import Case, Outcome

_WORTH_SAYING = 0.1  #: of what the plan reaches
_MOST_PER_CORE = 8  #: components: what more would bring is seen by then


def crowded(case: Case, bottleneck: str) -> Outcome | None:
    """The best of some shapes that share cores; None where the plan shares them already, or none gains a tenth.

    A slow simulator's own sentence says how many actors it wants, and turns leave nobody anything to do meanwhile.
    """
    if case.solution.shared or case.turns or not case.small or bottleneck == Cause.SIMULATOR:
        return None
    free = replace(case.problem, learners=None, actors=None, oversubscribe=True)
    tried = (replace(free, learners=shape[0], actors=shape[1]) for shape in _shapes(case) if free.allows(*shape))
    found = [outcome for problem in tried if (outcome := case.decided(problem)) is not None and outcome.shared]
    best = max(found, key=lambda outcome: outcome.samples_per_s, default=None)
    return best if best is not None and case.gain(best.samples_per_s) >= _WORTH_SAYING else None


def _shapes(case: Case) -> Iterator[tuple[int, int]]:
    """Shapes that need more cores than there are: some numbers of learners, actors doubling."""
    cores, now = case.problem.num_cores, case.solution.shape
    per_learner = case.problem.learner_core_choices()[0]
    for learners in sorted({now.learners, now.learners + 1, 2 * now.learners, max(1, cores // per_learner)}):
        actors = max(learners, cores - learners * per_learner + 1)
        while actors + learners * per_learner <= cores * _MOST_PER_CORE:
            yield learners, actors
            actors *= 2
