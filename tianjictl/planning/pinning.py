"""Cores for what one of many hosts has been given: the same rules as for a single machine, host by host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.states import Role
from tianjictl.planning.placement import dealt_or_floating, nearest, numbers, take

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.contract.plan import Placement
    from tianjictl.planning.problem import Charges, HostProblem
    from tianjictl.profiling.facts.cpus import Core


def pin(host: HostProblem, placed: Sequence[Placement], charges: Charges, fixed: float) -> tuple[Placement, ...]:
    """The components of one host with their cores and shares; `fixed`: shares charged for agent and couriers.

    Learners have cores of their own unless that leaves nothing for the rest.
    """
    learners = [p for p in placed if p.role is Role.LEARNER]
    actors = [p for p in placed if p.role is Role.ACTOR]
    light = {p.name: _charge(p.role, charges) for p in placed if p.role not in (Role.LEARNER, Role.ACTOR)}
    whole = sum(p.threads for p in learners)
    others = len(actors) + sum(light.values()) + fixed
    rest = host.capacity - whole
    exclusive = whole <= len(host.cores) and rest >= (1.0 if actors else min(1.0, others))
    cores, demand = (rest, others) if exclusive else (host.capacity, whole + others)
    factor = min(1.0, cores / demand) if demand > 0 else 1.0
    free = sorted(host.cores, key=lambda core: (core.thread, core.numa, core.cpu))
    every = list(free)
    trained_on = _learners(free, learners, exclusive=exclusive)
    pins, spare = _actors(free or every, actors, trained_on, crowded=whole + len(actors) > len(every))
    floating = numbers(spare if spare and sum(light.values()) <= len(spare) else free or every)
    made = []
    for p in placed:
        if p.role is Role.LEARNER:
            share = p.threads * (1.0 if exclusive else factor)
            made.append(_pinned(p, numbers(trained_on[p.name][1]), share))
        elif p.role is Role.ACTOR:
            made.append(_pinned(p, pins[p.name], factor))
        else:
            made.append(_pinned(p, floating, factor * light[p.name]))
    return tuple(made)


def oversubscription(host: HostProblem, placed: Sequence[Placement], charges: Charges, fixed: float) -> float:
    """Core shares charged per core the host has; 0 where no learner or actor has to share with another."""
    heavy = sum(p.threads for p in placed if p.role in (Role.LEARNER, Role.ACTOR))
    if heavy <= len(host.cores):
        return 0.0
    light = sum(_charge(p.role, charges) for p in placed if p.role not in (Role.LEARNER, Role.ACTOR))
    return round((heavy + light + fixed) / host.capacity, 6)


def _learners(
    free: list[Core], learners: Sequence[Placement], *, exclusive: bool
) -> dict[str, tuple[int, Sequence[Core]]]:
    """(group, cores) of each learner; those of their own are no longer free."""
    if exclusive:
        return {p.name: (p.group, take(free, p.threads)) for p in learners}
    if not learners:
        return {}
    dealt = dealt_or_floating(free, len(learners), learners[0].threads)
    return {p.name: (p.group, cores) for p, cores in zip(learners, dealt, strict=True)}


def _actors(
    free: list[Core],
    actors: Sequence[Placement],
    learners: dict[str, tuple[int, Sequence[Core]]],
    *,
    crowded: bool,
) -> tuple[dict[str, tuple[int, ...]], list[Core]]:
    """Cores of each actor, and those that nobody has."""
    homes = dict(learners.values())
    if not crowded:
        left = list(free)
        return {p.name: numbers([nearest(left, list(homes.get(p.group, ())))]) for p in actors}, left
    if actors and len(actors) % len(free) == 0:
        return {p.name: (free[position % len(free)].cpu,) for position, p in enumerate(actors)}, []
    return {p.name: numbers(free) for p in actors}, []


def _charge(role: Role, charges: Charges) -> float:
    return charges.evaluator if role is Role.EVALUATOR else charges.buffer


def _pinned(placement: Placement, cores: tuple[int, ...], share: float) -> Placement:
    return placement.model_copy(update={"cores": cores, "core_share": round(share, 6)})
