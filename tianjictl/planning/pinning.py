"""Cores for what one node has been given. Pinning is to operating-system CPU numbers that the run may really use.

Learners first: each inside one NUMA domain where it fits, since its threads share parameters. Actors come next, near
their learner; whole physical cores before hardware threads. Light components (buffers, evaluator) float over cores
that nobody has, else over the actors' cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.states import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.contract.plan import Placement
    from tianjictl.planning.node import Node
    from tianjictl.profiling.facts.cpus import Core

HEAVY = (Role.LEARNER, Role.ACTOR)


def in_order(cores: Sequence[Core]) -> list[Core]:
    """In the order of use: whole physical cores first, NUMA domain by domain."""
    return sorted(cores, key=lambda core: (core.thread, core.numa, core.cpu))


def pin(node: Node, placed: Sequence[Placement], standing: float) -> list[Placement]:
    """The components of one node with their cores, and their shares where there is too little time for all.

    `standing`: shares of a core for agent and couriers. Learners have cores of their own unless that leaves nothing
    for the rest.
    """
    learners = [p for p in placed if p.role is Role.LEARNER]
    actors = [p for p in placed if p.role is Role.ACTOR]
    light = sum(p.core_share for p in placed if p.role not in HEAVY)
    whole, others = sum(p.threads for p in learners), len(actors) + light + standing
    crowded = whole + len(actors) > len(node.cores)
    left = node.capacity - whole
    leaves_time = left >= (1.0 if actors else min(1.0, others)) if crowded else left > 0.0
    own = leaves_time or not crowded
    free = in_order(node.cores)
    every = list(free)
    trained_on = _learners(free, learners, own=own)
    pins, spare = _actors(free or every, actors, trained_on, crowded=crowded)
    floating = numbers(spare if spare and light <= len(spare) else free or every)
    cores, demand = (left, others) if own and leaves_time else (node.capacity, whole + others)
    factor = min(1.0, cores / demand) if demand > 0 else 1.0
    made = []
    for p in placed:
        if p.role is Role.LEARNER:
            made.append(_pinned(p, numbers(trained_on[p.group]), 1.0 if own and leaves_time else factor))
        else:
            made.append(_pinned(p, pins.get(p.name, floating), factor))
    return made


def oversubscription(node: Node, placed: Sequence[Placement], standing: float) -> float:
    """Core shares asked for per core's worth of time; 0 where no learner or actor has to share with another."""
    heavy = sum(p.threads for p in placed if p.role in HEAVY)
    light = sum(p.core_share for p in placed if p.role not in HEAVY)
    return round((heavy + light + standing) / node.capacity, 6) if heavy > len(node.cores) else 0.0


def _learners(free: list[Core], learners: Sequence[Placement], *, own: bool) -> dict[int, Sequence[Core]]:
    """Cores of each group's learner; those of their own are no longer free."""
    if own:
        return {p.group: _take(free, p.threads) for p in learners}
    if not learners:
        return {}
    dealt = _dealt_or_floating(free, len(learners), learners[0].threads)
    return {p.group: cores for p, cores in zip(learners, dealt, strict=True)}


def _take(free: list[Core], count: int) -> list[Core]:
    """Remove and return `count` cores: from the NUMA domain they fill best, from several only where none has enough."""
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


def _dealt_or_floating(cores: Sequence[Core], learners: int, count: int) -> list[list[Core]]:
    """Cores of learners that have to share: dealt round and round if that comes out even, else all for each."""
    if learners * count % len(cores):
        return [list(cores)] * learners
    return [[cores[(learner * count + step) % len(cores)] for step in range(count)] for learner in range(learners)]


def _actors(
    free: list[Core], actors: Sequence[Placement], homes: dict[int, Sequence[Core]], *, crowded: bool
) -> tuple[dict[str, tuple[int, ...]], list[Core]]:
    """Cores of each actor, and those that nobody has.

    Where actors outnumber cores they are dealt out evenly; where that does not come out even they float, so that the
    operating system evens out what a fixed deal cannot.
    """
    if not crowded:
        left = list(free) if actors else free
        return {p.name: numbers([_nearest(left, homes.get(p.group, ()))]) for p in actors}, list(left)
    if actors and len(actors) % len(free) == 0:
        return {p.name: (free[position % len(free)].cpu,) for position, p in enumerate(actors)}, []
    return {p.name: numbers(free) for p in actors}, []


def _nearest(left: list[Core], learner: Sequence[Core]) -> Core:
    """Remove and return the free core nearest to a learner: its NUMA domain first."""
    home = {core.numa for core in learner}
    found = min(left, key=lambda core: (core.numa not in home, core.thread, core.numa, core.cpu))
    left.remove(found)
    return found


def numbers(cores: Sequence[Core]) -> tuple[int, ...]:
    """The operating system's numbers of these cores, rising, each once."""
    return tuple(sorted({core.cpu for core in cores}))


def _pinned(placement: Placement, cores: tuple[int, ...], factor: float) -> Placement:
    return placement.model_copy(update={"cores": cores, "core_share": round(placement.core_share * factor, 6)})
