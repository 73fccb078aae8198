"""Re-verify a plan against its problem by arithmetic alone: no solver, nothing of how the plan was made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runtime.contract.sizings import admitted
from runtime.contract.states import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.contract.plan import HostPlan, Placement, Plan
    from tianjictl.planning.node import Node
    from tianjictl.planning.problem import Problem

_SLACK = 1e-4  #: shares are written with six digits
_MOST_SHARED = 64  #: components on one core
_HEAVY = (Role.LEARNER, Role.ACTOR)


def check(plan: Plan, problem: Problem) -> list[str]:
    """Every way in which the plan breaks a limit of the problem or contradicts itself; empty if none."""
    shape = plan.learners_and_actors
    stated = (problem, *(problem.at(choice) for choice in problem.choices))
    # Of one shape, two choices may come to the same sizes.
    alike = [each for each in stated if admitted(plan.job, each.sizing, shape, plan.env) == plan.sizes]
    if not alike:
        strange = "the sizes of the plan are neither the usual ones nor any that could be chosen"
        return [strange, *_check(plan, problem)]
    return min((_check(plan, each) for each in alike), key=len)


def _check(plan: Plan, problem: Problem) -> list[str]:
    """With the needs and speeds of the plan's sizes."""
    known = {node.name: node for node in problem.nodes}
    found = [*_counts(plan, problem), *_sizes(plan), *_asked_sizes(plan), *_rates(plan, problem)]
    if [host.name for host in plan.hosts] != list(known):
        found.append(f"the plan has the hosts {[host.name for host in plan.hosts]}, there are {list(known)}")
        return found
    strangers = [placement for placement in plan.placements if placement.host not in known]
    found += [f"{p.name} is on {p.host}, which is not a host of the problem" for p in strangers]
    for planned in plan.hosts:
        node = known[planned.name]
        found += _cores(plan, planned, node)
        found += _domains(plan, planned, node)
        found += _sharing(plan, planned, node, problem)
        found += _roles(plan, planned, node)
        found += _memory(plan, planned, node, problem)
        found += _network(plan, planned, node, problem)
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
    if len(plan.of_role(Role.EVALUATOR)) != int(problem.evaluator):
        yield f"there are {len(plan.of_role(Role.EVALUATOR))} evaluators"
    if problem.learners not in (None, shape.learners) or problem.actors not in (None, shape.actors):
        yield f"{plan.shape} is not what was asked for: L{problem.learners or '?'}A{problem.actors or '?'}"
    for bound, sign in ((problem.least, 1), (problem.most, -1)):
        if bound is not None and min(sign * (a - b) for a, b in zip(shape, bound, strict=True)) < 0:
            yield f"{plan.shape} is outside the elastic range, which ends at {bound}"


def _cores(plan: Plan, planned: HostPlan, node: Node) -> Iterator[str]:
    usable, placed = {core.cpu for core in node.cores}, plan.on(planned.name)
    for placement in placed:
        pins = set(placement.cores)
        if not pins or not pins <= usable or len(pins) != len(placement.cores):
            yield f"{placement.name} is pinned to CPUs {placement.cores}, usable are {tuple(sorted(usable))}"
        yield from _threads(placement, shared=planned.oversubscription > 0)
    for held in sorted({tuple(sorted(p.cores)) for p in placed}):
        # Whoever may run nowhere else has to find its time there.
        share = sum(p.core_share for p in placed if set(p.cores) <= set(held))
        if share > len(held) + _SLACK * len(placed):
            told = f"CPU {held[0]}" if len(held) == 1 else f"CPUs {held}"
            yield f"{told} of {planned.name} is charged {share:.3f} cores"
    if sorted(planned.cores) != sorted(usable):
        yield f"the plan was made for CPUs {planned.cores} of {planned.name}, usable are {tuple(sorted(usable))}"


def _domains(plan: Plan, planned: HostPlan, node: Node) -> Iterator[str]:
    """A learner with cores of its own is inside one NUMA domain, where any domain is large enough."""
    if planned.oversubscription > 0:
        return
    domain = {core.cpu: core.numa for core in node.cores}
    largest = max(Counter(domain.values()).values(), default=0)
    for placement in plan.on(planned.name):
        used = {domain.get(cpu) for cpu in placement.cores}
        if placement.role is Role.LEARNER and placement.threads <= largest and len(used) > 1:
            yield f"{placement.name} is spread over {len(used)} NUMA domains of {planned.name}, and one would hold it"


def _roles(plan: Plan, planned: HostPlan, node: Node) -> Iterator[str]:
    """A buffer is where its learner is; the roles of a host do not speak of it. So does an evaluator without a home."""
    nobody = all(host.roles and Role.EVALUATOR not in host.roles for host in plan.hosts)
    if planned.roles != node.roles:
        yield f"the plan says that {planned.name} may hold {planned.roles or 'all'}; it is {node.roles or 'all'}"
    for placement in plan.on(planned.name):
        if placement.role is Role.BUFFER:
            if plan.home(placement.group) != planned.name:
                yield f"{placement.name} is on {planned.name}, its learner on {plan.home(placement.group)}"
        elif node.roles and placement.role not in node.roles and not (placement.role is Role.EVALUATOR and nobody):
            yield f"{placement.name} is on {planned.name}, which may hold {', '.join(node.roles)}"


def _threads(placement: Placement, *, shared: bool) -> Iterator[str]:
    """A learner has a thread for each of its cores; where cores are shared it may have fewer than it floats over."""
    cores = len(placement.cores) if placement.role is Role.LEARNER else 1
    if placement.threads > cores or (placement.threads < cores and not shared):
        yield f"{placement.name} has {placement.threads} threads, its cores call for {cores}"


def _sharing(plan: Plan, planned: HostPlan, node: Node, problem: Problem) -> Iterator[str]:
    """Learners and actors have cores of their own unless the plan admits that they share."""
    heavy = [p for p in plan.on(planned.name) if p.role in _HEAVY]
    whole = sum(p.threads for p in heavy)
    stated, where = planned.oversubscription, "" if len(plan.hosts) == 1 else f" of {planned.name}"
    if whole > len(node.cores):
        least = whole / node.capacity
        if not problem.oversubscribe:
            yield f"{whole} cores{where} are needed, there are {len(node.cores)}, and sharing was not allowed"
        if whole > len(node.cores) * _MOST_SHARED:
            yield f"{whole} cores{where} are needed, more than {_MOST_SHARED} for each there is"
        light = sum(p.role not in _HEAVY for p in plan.on(planned.name)) + len(plan.hosts) + 1
        if not least <= stated * (1 + _SLACK) <= least + light / node.capacity:
            yield f"the plan states an oversubscription{where} of {stated:g}, it is {least:g} and what is light"
        return
    if stated:
        yield f"the plan states an oversubscription{where} of {stated:g}, yet learners and actors fit the cores"
    owners = Counter(cpu for placement in heavy for cpu in placement.cores)
    for cpu, count in sorted(owners.items()):
        if count > 1:
            yield f"CPU {cpu}{where} has {count} learners or actors, although there are cores for each"


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


def _asked_sizes(plan: Plan) -> Iterator[str]:
    """What the job says of sizes holds; an on-policy buffer only bounds what the rings hold."""
    job, sizes = plan.job, plan.sizes
    for what, asked, has in (
        ("a number of environments", job.env.num_envs, sizes.num_envs),
        ("batches", job.training.batch_size, sizes.batch_size),
        ("buffers", job.distributed.buffer_size, sizes.buffer_size),
    ):
        bounded = what == "buffers" and job.on_policy
        if isinstance(asked, int) and (has > asked or (has < asked and not bounded)):
            yield f"the job asks for {what} of {asked}, the plan has {has}"


def _memory(plan: Plan, planned: HostPlan, node: Node, problem: Problem) -> Iterator[str]:
    roles = Counter(p.role for p in plan.on(planned.name))
    if not roles[Role.LEARNER] + roles[Role.ACTOR]:
        return
    needs = problem.memory
    need = needs.once + roles[Role.LEARNER] * needs.learner + roles[Role.ACTOR] * needs.actor
    if need > node.usable_memory:
        yield f"what is on {planned.name} needs about {need} bytes of memory, {node.usable_memory} may be used"


def _network(plan: Plan, planned: HostPlan, node: Node, problem: Problem) -> Iterator[str]:
    """Actors elsewhere give no more than the network carries; what is predicted may not need more."""
    if planned.mb_per_s != node.mb_per_s:
        yield f"the plan takes the network of {planned.name} to carry {planned.mb_per_s}, it is {node.mb_per_s} MB/s"
    predicted = plan.predicted.env_steps_per_s
    if predicted is None or node.mb_per_s is None or problem.turns:
        return
    carried = node.mb_per_s * 1e6 / problem.bytes_per_step
    homes = {group: plan.home(group) for group in plan.groups}
    freely, over = 0.0, False
    for p in plan.of_role(Role.ACTOR):
        if (p.host == planned.name) != (homes[p.group] == planned.name):
            over = True
        else:
            freely += problem.rates(_named(problem.nodes, p.host)).actor_steps_per_s
    if over and predicted > (freely + 2 * carried) * (1 + _SLACK):
        yield f"{predicted:g} env steps/s are predicted, the network of {planned.name} carries {carried:g}"


def _named(nodes: Sequence[Node], name: str) -> Node:
    return next(node for node in nodes if node.name == name)


def _rates(plan: Plan, problem: Problem) -> Iterator[str]:
    """The prediction may not exceed what each side was measured to give."""
    predicted = plan.predicted.samples_per_s
    if not problem.measured:
        if predicted is not None:
            yield "rates are predicted although nothing was measured"
        return
    if predicted is None:
        yield "rates were measured, yet none is predicted"
        return
    rates = {name: plan.rates[name] for name in {p.host for p in plan.placements} if name in plan.rates}
    if any(p.host not in rates for p in plan.placements):
        yield "a host of the plan has no rates in it"
        return
    learners = sum(rates[p.host].learner_on(p.threads).samples_per_s for p in plan.of_role(Role.LEARNER))
    actors = problem.ratio * sum(rates[p.host].actor_steps_per_s for p in plan.of_role(Role.ACTOR))
    for side, limit in (("learners", learners), ("actors", actors)):
        if predicted > limit * (1 + _SLACK):
            yield f"{predicted:g} samples/s are predicted, the {side} give at most {limit:g}"
