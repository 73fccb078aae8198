"""A plan over several hosts: counts as if they were one, then each component to a host, then to its cores. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime.contract.arrangement import ArrangementError, spread
from runtime.contract.plan import Fingerprints, HostPlan, NamesUsed, Placement, Plan
from runtime.contract.sizes import resolve_sizes
from runtime.contract.states import Role
from tianjictl.errors import Infeasible
from tianjictl.planning.choice import Choice, sharing_of
from tianjictl.planning.decide import decide
from tianjictl.planning.explain import predict
from tianjictl.planning.links import links_of
from tianjictl.planning.pinning import oversubscription, pin
from tianjictl.planning.problem import HostProblem, Pool, Problem, Rates, problem_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job

TOGETHER = "the inventory"  #: what the hosts are called where they are meant as one


@dataclass(frozen=True, slots=True)
class NodeProblem:
    """One host: what it has, what the inventory says of it, and how fast it was measured to be."""

    host: HostProblem
    plan: HostPlan  #: roles, network, ports, wan
    rates: Rates | None = None
    link_mb_per_s: float | None = None  #: of the interface that it would use, where the driver tells

    def may(self, role: Role) -> bool:
        """Whether a component of this role may run there."""
        return not self.plan.roles or role in self.plan.roles


def pooled(job: Job, env: EnvSpec, nodes: Sequence[NodeProblem]) -> Problem:
    """The problem of placing `job` on several hosts taken together; the first is the head."""
    cores = tuple(core for node in nodes for core in node.host.cores)
    host = HostProblem(
        name=TOGETHER,
        cores=cores,
        capacity=sum(node.host.capacity for node in nodes),
        memory_bytes=sum(node.host.memory_bytes for node in nodes),
    )
    pools = tuple(
        Pool(node.host.name, len(node.host.cores), learners=node.may(Role.LEARNER), actors=node.may(Role.ACTOR))
        for node in nodes
    )
    problem = problem_of(job, env, host, _pooled_rates(nodes), pools)
    once = problem.memory.once * len(nodes)  # agent, forkserver and couriers are on every host
    return replace(problem, memory=replace(problem.memory, once=once))


def plan_over(
    nodes: Sequence[NodeProblem], job: Job, env: EnvSpec, prints: Fingerprints, notes: tuple[str, ...] = ()
) -> Plan:
    """Decide, spread, pin and predict. Raises Infeasible, or SizesError where the job's sizes contradict each other."""
    problem = pooled(job, env, nodes)
    solution = decide(problem)
    choice = solution.choice
    sizes = resolve_sizes(job, choice.shape, env)
    hosts = tuple(_host_plan(node) for node in nodes)
    try:
        spread_out = spread(
            job, sizes, choice.shape, hosts, learner_threads=choice.learner_cores, charges=problem.charges
        )
    except ArrangementError as error:
        told = tuple(f"{pool.name}: {pool.cores} cores" for pool in problem.pools)
        raise Infeasible(error.message, hint=error.hint, details=told) from error
    _refuse_what_fills_a_host(problem, nodes, spread_out)
    placements, hosts = _pinned(problem, nodes, hosts, spread_out)
    real = problem if problem.rates is None else replace(problem, rates=_met(nodes, placements, problem.rates))
    plan = Plan(
        shape=str(choice.shape),
        names_used=NamesUsed(actors=choice.actors, groups=choice.learners),
        job=job,
        env=env,
        sizes=sizes,
        hosts=hosts,
        placements=placements,
        predicted=predict(real, choice, sizes),
        fingerprints=prints,
        solver=solution.proof,
    )
    return plan.model_copy(update={"notes": (*notes, *_notes(problem, nodes, plan))})


def _host_plan(node: NodeProblem) -> HostPlan:
    """Cores in the order in which they should be used: whole physical ones first, NUMA node by NUMA node."""
    order = sorted(node.host.cores, key=lambda core: (core.thread, core.numa, core.cpu))
    return node.plan.model_copy(update={"name": node.host.name, "cores": tuple(core.cpu for core in order)})


def _pinned(
    problem: Problem, nodes: Sequence[NodeProblem], hosts: tuple[HostPlan, ...], spread_out: tuple[Placement, ...]
) -> tuple[tuple[Placement, ...], tuple[HostPlan, ...]]:
    """Everything on its cores, in the order of `spread_out`, and the hosts with how far each is oversubscribed."""
    found: dict[str, Placement] = {}
    stated = []
    for node, host in zip(nodes, hosts, strict=True):
        mine = [p for p in spread_out if p.host == host.name]
        fixed = _fixed(problem, len(nodes), head=host is hosts[0])
        found |= {p.name: p for p in pin(node.host, mine, problem.charges, fixed)}
        over = oversubscription(node.host, mine, problem.charges, fixed)
        stated.append(host.model_copy(update={"oversubscription": over}))
    return tuple(found[p.name] for p in spread_out), tuple(stated)


def _fixed(problem: Problem, nodes: int, *, head: bool) -> float:
    """Core shares for the agent of a host and the couriers of its links, which mostly lead to the head."""
    ends = nodes - 1 if head else 1
    return problem.charges.node + problem.charges.link / 2 * (ends if nodes > 1 else 0)


def _pooled_rates(nodes: Sequence[NodeProblem]) -> Rates | None:
    """Rates of an average core: of actors over the cores that may hold one, of learners likewise. None if unknown."""
    acting = [node for node in nodes if node.may(Role.ACTOR)]
    training = [node for node in nodes if node.may(Role.LEARNER)]
    if not acting or not training or any(node.rates is None for node in nodes):
        return None
    return _mean([n for n in acting for _ in n.host.cores], [n for n in training for _ in n.host.cores])


def _met(nodes: Sequence[NodeProblem], placements: Sequence[Placement], pool: Rates) -> Rates:
    """Rates as the hosts of the components that are placed give them, one for all."""
    by_name = {node.host.name: node for node in nodes}
    acting = [by_name[p.host] for p in placements if p.role is Role.ACTOR]
    training = [by_name[p.host] for p in placements if p.role is Role.LEARNER]
    return _mean(acting, training) or pool


def _mean(acting: Sequence[NodeProblem], training: Sequence[NodeProblem]) -> Rates | None:
    act = [node.rates for node in acting if node.rates is not None]
    train = [node.rates for node in training if node.rates is not None]
    if not act or not train:
        return None
    counts = sorted({count for rates in train for count, _ in rates.learner_samples_per_s})
    return Rates(
        actor_steps_per_s=sum(rates.actor_steps_per_s for rates in act) / len(act),
        learner_samples_per_s=tuple((c, sum(rates.learner(c) for rates in train) / len(train)) for c in counts),
        buffer_s_per_step=sum(rates.buffer_s_per_step for rates in train) / len(train),
    )


def _refuse_what_fills_a_host(problem: Problem, nodes: Sequence[NodeProblem], placed: Sequence[Placement]) -> None:
    """Infeasible where what one host has been given does not fit its memory."""
    memory = problem.memory
    for node in nodes:
        mine = [p for p in placed if p.host == node.host.name]
        learners = sum(p.role is Role.LEARNER for p in mine)
        actors = sum(p.role is Role.ACTOR for p in mine)
        need = memory.once // len(nodes) + learners * memory.learner + actors * memory.actor
        have = replace(problem, host=node.host).usable_memory
        if need > have:
            raise Infeasible(
                f"{node.host.name}: {learners} learners and {actors} actors need about {need / 2**30:.2f} GiB of "
                f"memory; it allows {have / 2**30:.2f} GiB",
                hint=f"set tianji_max_cores of {node.host.name} lower, or a smaller distributed.buffer_size",
            )


def _notes(problem: Problem, nodes: Sequence[NodeProblem], plan: Plan) -> Iterator[str]:
    for node in nodes:
        if node.host.capacity < len(node.host.cores):
            yield f"{node.host.name}: a quota allows {node.host.capacity:g} CPUs' worth of time"
    for host in plan.hosts:
        if not plan.on(host.name):
            yield f"{host.name}: nothing runs there yet; it stands ready"
    if not sharing_of(problem, _choice_of(plan)).exclusive:
        yield "learners share their cores with the other components, which slows both"
    if any(core.thread for core in problem.host.cores):
        yield "some cores are hardware threads of the same physical core: they are used last"
    known = {node.host.name: node.link_mb_per_s for node in nodes}
    for link in links_of(plan):
        limit = min((speed for name in (link.source, link.target) if (speed := known[name])), default=None)
        if link.mb_per_s is not None and limit is not None and link.mb_per_s > 0.7 * limit:
            yield (
                f"{link.source} → {link.target}: about {link.mb_per_s:.0f} MB/s are to be sent, "
                f"and the network gives {limit:.0f} MB/s at most"
            )


def _choice_of(plan: Plan) -> Choice:
    shape = plan.learners_and_actors
    threads = max(p.threads for p in plan.of_role(Role.LEARNER))
    return Choice(shape.learners, threads, shape.actors)
