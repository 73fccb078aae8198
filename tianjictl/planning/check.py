"""Re-verify a plan against its problem by arithmetic alone: no solver, nothing of how the plan was made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runtime.contract.states import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.contract.plan import HostPlan, Placement, Plan
    from tianjictl.planning.problem import HostProblem, Problem

_SLACK = 1e-4  #: shares are written with six digits


def check(plan: Plan, problem: Problem, hosts: Sequence[HostProblem] = ()) -> list[str]:
    """Every way in which the plan breaks a limit of the problem or contradicts itself; empty if none.

    `hosts`: what the problem's host stands for, where that is several; the head first.
    """
    known = {host.name: host for host in hosts or (problem.host,)}
    found = [*_counts(plan, problem), *_sizes(plan), *_memory(plan, problem), *_rates(plan, problem)]
    if [host.name for host in plan.hosts] != list(known):
        found.append(f"the plan has the hosts {[host.name for host in plan.hosts]}, there are {list(known)}")
        return found
    strangers = [placement for placement in plan.placements if placement.host not in known]
    found += [f"{p.name} is on {p.host}, which is not a host of the problem" for p in strangers]
    for planned in plan.hosts:
        found += _cores(plan, planned, known[planned.name])
        found += _sharing(plan, planned, known[planned.name], problem)
        found += _roles(plan, planned)
    return found


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


def _cores(plan: Plan, planned: HostPlan, host: HostProblem) -> Iterator[str]:
    usable = {core.cpu for core in host.cores}
    load: Counter[int] = Counter()
    for placement in plan.on(planned.name):
        if (
            not placement.cores
            or not set(placement.cores) <= usable
            or len(set(placement.cores)) != len(placement.cores)
        ):
            yield f"{placement.name} is pinned to CPUs {placement.cores}, usable are {tuple(sorted(usable))}"
        yield from _threads(placement, shared=planned.oversubscription > 0)
        for cpu in placement.cores:
            load[cpu] += placement.core_share / len(placement.cores)  # type: ignore[assignment]  # Counter counts floats too
    for cpu, share in sorted(load.items()):
        if share > 1 + _SLACK:
            yield f"CPU {cpu} of {planned.name} is charged {share:.3f} cores"
    if sorted(planned.cores) != sorted(usable):
        yield f"the plan was made for CPUs {planned.cores} of {planned.name}, usable are {tuple(sorted(usable))}"


def _roles(plan: Plan, planned: HostPlan) -> Iterator[str]:
    """A buffer is where its learner is; the roles of a host do not speak of it. So does an evaluator without a home."""
    for placement in plan.on(planned.name):
        free = placement.role is Role.EVALUATOR and all(Role.EVALUATOR not in host.roles for host in plan.hosts)
        if placement.role is Role.BUFFER:
            if plan.home(placement.group) != planned.name:
                yield f"{placement.name} is on {planned.name}, its learner on {plan.home(placement.group)}"
        elif planned.roles and placement.role not in planned.roles and not free:
            yield f"{placement.name} is on {planned.name}, which may hold {', '.join(planned.roles)}"


def _threads(placement: Placement, *, shared: bool) -> Iterator[str]:
    """A learner has a thread for each of its cores; where cores are shared it may have fewer than it floats over."""
    cores = len(placement.cores) if placement.role is Role.LEARNER else 1
    if placement.threads > cores or (placement.threads < cores and not shared):
        yield f"{placement.name} has {placement.threads} threads, its cores call for {cores}"


def _sharing(plan: Plan, planned: HostPlan, host: HostProblem, problem: Problem) -> Iterator[str]:
    """Learners and actors have cores of their own unless the plan admits how far it shares."""
    placed = plan.on(planned.name)
    heavy = [p for p in placed if p.role in (Role.LEARNER, Role.ACTOR)]
    whole = sum(p.threads for p in heavy)
    stated, where = planned.oversubscription, "" if len(plan.hosts) == 1 else f" of {planned.name}"
    if whole > len(host.cores):
        real = (whole + _light(plan, placed, planned, problem)) / host.capacity
        if not problem.oversubscribe:
            yield f"{whole} cores{where} are needed, there are {len(host.cores)}, and sharing was not allowed"
        if abs(stated - real) > _SLACK * real:
            yield f"the plan states an oversubscription{where} of {stated:g}, it is {real:g}"
        return
    if stated:
        yield f"the plan states an oversubscription{where} of {stated:g}, yet learners and actors fit the cores"
    owners = Counter(cpu for placement in heavy for cpu in placement.cores)
    for cpu, count in sorted(owners.items()):
        if count > 1:
            yield f"CPU {cpu}{where} has {count} learners or actors, although there are cores for each"


def _light(plan: Plan, placed: Sequence[Placement], planned: HostPlan, problem: Problem) -> float:
    """Shares of what is light on one host: buffers, evaluator, agent, and the couriers at its end of each link."""
    charges, others = problem.charges, len(plan.hosts) - 1
    ends = others if planned.name == plan.head else min(1, others)
    buffers = charges.buffer * sum(p.role is Role.BUFFER for p in placed)
    evaluators = charges.evaluator * sum(p.role is Role.EVALUATOR for p in placed)
    return buffers + evaluators + charges.node + ends * charges.link / 2


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
