"""Counts become components on cores. Pinning is to operating-system CPU numbers that this process may really use.

Learners first: each inside one NUMA node where it fits, since its threads share parameters. Actors come next, near
their learner. Light components (buffers, evaluator) float over cores that nobody has, else over the actors' cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.plan import Placement
from runtime.contract.states import Role
from tianjictl.planning.choice import Choice, is_oversubscribed, sharing_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.planning.problem import Problem
    from tianjictl.profiling.facts.cpus import Core


def place(problem: Problem, choice: Choice) -> tuple[Placement, ...]:
    """Every component of the run with its cores and share, in the order learners, buffers, actors, evaluator."""
    sharing = sharing_of(problem, choice)
    share = sharing.factor
    free = sorted(problem.host.cores, key=lambda core: (core.thread, core.numa, core.cpu))
    if sharing.exclusive:
        learners = [take(free, choice.learner_cores) for _ in range(choice.learners)]
    else:
        learners = dealt_or_floating(free, choice.learners, choice.learner_cores)
    actors, spare = _actor_cores(problem, choice, free, learners)
    light = choice.learners * problem.charges.buffer + (problem.charges.evaluator if problem.evaluator else 0.0)
    floating = numbers(spare if spare and light <= len(spare) else free)
    made = _Maker(problem.host.name)
    learner_share = choice.learner_cores * (1.0 if sharing.exclusive else share)
    for group, cores in enumerate(learners):
        made.add(Role.LEARNER, group, group, numbers(cores), learner_share, threads=choice.learner_cores)
    for group in range(choice.learners):
        made.add(Role.BUFFER, group, group, floating, share * problem.charges.buffer)
    for index, (group, pins) in enumerate(actors):
        made.add(Role.ACTOR, index, group, pins, share)
    if problem.evaluator:
        made.add(Role.EVALUATOR, 0, 0, floating, share * problem.charges.evaluator)
    return tuple(made.placements)


class _Maker:
    """Collects placements of one host."""

    def __init__(self, host: str) -> None:
        self._host = host
        self.placements: list[Placement] = []

    def add(self, role: Role, index: int, group: int, cores: tuple[int, ...], share: float, threads: int = 1) -> None:
        self.placements.append(
            Placement(
                name=f"{role}-{index}",
                role=role,
                index=index,
                group=group,
                host=self._host,
                cores=cores,
                core_share=round(share, 6),
                threads=threads,
            )
        )


def take(free: list[Core], count: int) -> list[Core]:
    """Remove and return `count` cores: from the NUMA node they fill best, from several only where none has enough."""
    room: dict[int, int] = {}
    for core in free:
        room[core.numa] = room.get(core.numa, 0) + 1
    fitting = [numa for numa, cores in room.items() if cores >= count]
    if fitting:
        home = min(fitting, key=lambda numa: (room[numa], numa))
        taken = [core for core in free if core.numa == home][:count]
    else:
        roomiest = sorted(free, key=lambda core: (-room[core.numa], core.numa, core.thread, core.cpu))
        taken = roomiest[:count]
    for core in taken:
        free.remove(core)
    return taken


def dealt_or_floating(cores: Sequence[Core], learners: int, count: int) -> list[list[Core]]:
    """Cores of learners that have to share: dealt round and round if that comes out even, else all for each."""
    if learners * count % len(cores):
        return [list(cores)] * learners
    return [[cores[(learner * count + step) % len(cores)] for step in range(count)] for learner in range(learners)]


def _actor_cores(
    problem: Problem, choice: Choice, free: list[Core], learners: list[list[Core]]
) -> tuple[list[tuple[int, tuple[int, ...]]], list[Core]]:
    """(group, CPU numbers) of each actor, groups in order, and the cores that are left over.

    Where actors outnumber cores they are dealt out evenly; where that does not come out even they float, so that the
    operating system evens out what a fixed deal cannot.
    """
    groups = [g for g in range(choice.learners) for _ in range(choice.shape.actors_of_group(g))]
    if not is_oversubscribed(problem, choice):
        left = list(free)
        placed = [(group, numbers([nearest(left, learners[group])])) for group in groups]
        return placed, left
    if choice.actors % len(free) == 0:
        return [(group, (free[index % len(free)].cpu,)) for index, group in enumerate(groups)], []
    return [(group, numbers(free)) for group in groups], []


def nearest(left: list[Core], learner: list[Core]) -> Core:
    """Remove and return the free core nearest to a learner: its NUMA node first."""
    home = {core.numa for core in learner}
    found = min(left, key=lambda core: (core.numa not in home, core.thread, core.numa, core.cpu))
    left.remove(found)
    return found


def numbers(cores: Sequence[Core]) -> tuple[int, ...]:
    """The operating system's numbers of these cores, rising, each once."""
    return tuple(sorted({core.cpu for core in cores}))
