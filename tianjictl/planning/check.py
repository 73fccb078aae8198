"""Re-verify a plan against its problem by arithmetic alone: no solver, nothing of how the plan was made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runtime.contract.states import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.contract.plan import Placement, Plan
    from tianjictl.planning.problem import Problem

_SLACK = 1e-4  #: shares are written with six digits


def check(plan: Plan, problem: Problem) -> list[str]:
    """Every way in which the plan breaks a limit of the problem or contradicts itself; empty if none."""
    return [
        *_counts(plan, problem),
        *_cores(plan, problem),
        *_sizes(plan),
        *_memory(plan, problem),
        *_rates(plan, problem),
    ]


def _counts(plan: Plan, problem: Problem) -> Iterator[str]:
    shape = plan.learners_and_actors
    for role, wanted in ((Role.LEARNER, shape.learners), (Role.BUFFER, shape.learners), (Role.ACTOR, shape.actors)):
        indices = [placement.index for placement in plan.of_role(role)]
        if sorted(indices) != list(range(wanted)):
            yield f"{plan.shape} wants {role} 0…{wanted - 1}, the plan has {sorted(indices)}"
    for group in range(shape.learners):
        found = len(plan.group_of(group, Role.ACTOR))
        if found != shape.actors_of_group(group):
            yield f"group {group} should have {shape.actors_of_group(group)} actors, it has {found}"
    for name, count in Counter(placement.name for placement in plan.placements).items():
        if count > 1:
            yield f"{count} components are called {name}"
    for placement in plan.placements:
        if placement.name != f"{placement.role}-{placement.index}":
            yield f"{placement.name} should be called {placement.role}-{placement.index}"
    if problem.learners not in (None, shape.learners) or problem.actors not in (None, shape.actors):
        yield f"{plan.shape} is not what was asked for: L{problem.learners or '?'}A{problem.actors or '?'}"


def _cores(plan: Plan, problem: Problem) -> Iterator[str]:
    usable = {core.cpu for core in problem.host.cores}
    load: Counter[int] = Counter()
    for placement in plan.placements:
        if placement.host != problem.host.name:
            yield f"{placement.name} is on {placement.host}, which is not a host of the problem"
        if (
            not placement.cores
            or not set(placement.cores) <= usable
            or len(set(placement.cores)) != len(placement.cores)
        ):
            yield f"{placement.name} is pinned to CPUs {placement.cores}, usable are {tuple(sorted(usable))}"
        yield from _threads(placement, shared=plan.hosts[0].oversubscription > 0)
        for cpu in placement.cores:
            load[cpu] += placement.core_share / len(placement.cores)  # type: ignore[assignment]  # Counter counts floats too
    for cpu, share in sorted(load.items()):
        if share > 1 + _SLACK:
            yield f"CPU {cpu} is charged {share:.3f} cores"
    if plan.hosts[0].cores != tuple(sorted(usable)):
        yield f"the plan was made for CPUs {plan.hosts[0].cores}, usable are {tuple(sorted(usable))}"
    yield from _sharing(plan, problem)


def _threads(placement: Placement, *, shared: bool) -> Iterator[str]:
    """A learner has a thread for each of its cores; where cores are shared it may have fewer than it floats over."""
    cores = len(placement.cores) if placement.role is Role.LEARNER else 1
    if placement.threads > cores or (placement.threads < cores and not shared):
        yield f"{placement.name} has {placement.threads} threads, its cores call for {cores}"


def _sharing(plan: Plan, problem: Problem) -> Iterator[str]:
    """Learners and actors have cores of their own unless the plan admits how far it shares."""
    heavy = [p for p in plan.placements if p.role in (Role.LEARNER, Role.ACTOR)]
    whole = sum(p.threads for p in heavy)
    stated = plan.hosts[0].oversubscription
    if whole > problem.num_cores:
        light = problem.charges.buffer * len(plan.of_role(Role.BUFFER)) + problem.fixed_light
        real = (whole + light) / problem.host.capacity
        if not problem.oversubscribe:
            yield f"{whole} cores are needed, there are {problem.num_cores}, and sharing was not allowed"
        if abs(stated - real) > _SLACK * real:
            yield f"the plan states an oversubscription of {stated:g}, it is {real:g}"
        return
    if stated:
        yield f"the plan states an oversubscription of {stated:g}, yet learners and actors fit the cores"
    owners = Counter(cpu for placement in heavy for cpu in placement.cores)
    for cpu, count in sorted(owners.items()):
        if count > 1:
            yield f"CPU {cpu} has {count} learners or actors, although there are cores for each"


def _sizes(plan: Plan) -> Iterator[str]:
    sizes = plan.sizes
    if sizes.batch_size > sizes.buffer_size:
        yield f"a batch of {sizes.batch_size} is larger than the buffer of {sizes.buffer_size}"
    elif abs(sizes.pool_ratio - sizes.batch_size / sizes.buffer_size) > 1e-9:
        yield f"P is stated as {sizes.pool_ratio:g}, batch / buffer is {sizes.batch_size / sizes.buffer_size:g}"
    if sizes.pool_ratio > sizes.staleness_tolerance * (1 + 1e-6):
        yield f"P = {sizes.pool_ratio:g} is above the tolerance of {sizes.staleness_tolerance:g}"
    if plan.job.on_policy and sizes.fragments_per_batch * sizes.fragment_samples != sizes.batch_size:
        yield f"{sizes.fragments_per_batch} fragments of {sizes.fragment_samples} are no batch of {sizes.batch_size}"


def _memory(plan: Plan, problem: Problem) -> Iterator[str]:
    shape = plan.learners_and_actors
    if not problem.fits_memory(shape.learners, shape.actors):
        need = problem.memory.of(shape.learners, shape.actors)
        yield f"{plan.shape} needs about {need} bytes of memory, {problem.usable_memory} may be used"


def _rates(plan: Plan, problem: Problem) -> Iterator[str]:
    """The prediction may not exceed what each side was measured to give."""
    rates, predicted = problem.rates, plan.predicted.samples_per_s
    if rates is None:
        if predicted is not None:
            yield "rates are predicted although nothing was measured"
        return
    if predicted is None:
        yield "rates were measured, yet none is predicted"
        return
    learners = sum(rates.learner(p.threads) for p in plan.of_role(Role.LEARNER))
    actors = problem.trained_per_step * sum(
        rates.actor_steps_per_s * min(1.0, float(len(p.cores))) for p in plan.of_role(Role.ACTOR)
    )
    for side, limit in (("learners", learners), ("actors", actors)):
        if predicted > limit * (1 + _SLACK):
            yield f"{predicted:g} samples/s are predicted, the {side} give at most {limit:g}"
