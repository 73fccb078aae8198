"""From a problem to a Plan. Pure: the same input gives the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.algorithm import PpoConfig
from runtime.contract.plan import HostPlan, NamesUsed, Plan
from runtime.contract.predicting import predicted
from runtime.contract.sizes import resolve_sizes
from runtime.contract.sizings import admitted, sized
from runtime.contract.states import Role
from tianjictl.planning.decide import settle
from tianjictl.planning.explain import brief
from tianjictl.planning.infeasible import infeasible
from tianjictl.planning.links import links_of
from tianjictl.planning.pinning import in_order
from tianjictl.planning.placement import place
from tianjictl.planning.sizing_words import sizing_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
    from runtime.contract.plan import Fingerprints, Sizes
    from runtime.contract.rates import HostRates
    from tianjictl.planning.problem import Problem
    from tianjictl.planning.solution import Solution

_NEARLY_FULL = 0.7  #: of what a network carries; from here on it is said


def make_plan(
    problem: Problem,
    job: Job,
    env: EnvSpec,
    fingerprints: Fingerprints,
    *,
    hosts: Sequence[HostPlan] = (),
    rates_at: Callable[[Sizes], Mapping[str, HostRates]] | None = None,
    profile_keys: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
    decided: Callable[[Problem, Solution], None] = lambda _problem, _solution: None,
) -> Plan:
    """Decide, place and predict; raises Infeasible, or SizesError where the job's sizes contradict each other.

    `hosts`: what is known of the nodes before anything is placed there. `rates_at`: of each host as measured, for the
    sizes of the plan; the problem's are smoothed, and those of its smallest shape. `profile_keys`: where those are
    kept. `decided` is told what an explanation needs: the problem at the sizes that were chosen.
    """
    settled = settle(problem, lambda sizing, shape: admitted(job, sizing, shape, env) is not None)
    if settled is None:
        raise infeasible(problem)
    problem, solution, _ = settled
    decided(problem, solution)
    placed = place(problem, solution)
    sizes = resolve_sizes(sized(job, problem.sizing), solution.shape, env)
    known = {node.name: node.rates for node in problem.nodes if node.rates is not None}
    plan = Plan(
        shape=str(solution.shape),
        names_used=NamesUsed(actors=solution.shape.actors, groups=solution.shape.learners),
        job=job,
        env=env,
        sizes=sizes,
        hosts=_hosts(problem, hosts, placed.oversubscription),
        placements=placed.components,
        rates=dict(known if rates_at is None else rates_at(sizes)) if problem.measured else {},
        profile_keys=dict(profile_keys or {}),
        fingerprints=fingerprints,
        solver=solution.proof,
    )
    plan = plan.model_copy(update={"predicted": predicted(plan)})
    told = (*notes, *sizing_words(settled, plan), *_notes(problem, plan))
    words = brief(problem, solution, plan)
    return plan.model_copy(update={"predicted": predicted(plan, words), "notes": told})


def _hosts(problem: Problem, told: Sequence[HostPlan], crowded: Sequence[float]) -> tuple[HostPlan, ...]:
    """Cores in the order in which they should be used, and how far each node is oversubscribed."""
    known = {host.name: host for host in told}
    made = []
    for node, oversubscription in zip(problem.nodes, crowded, strict=True):
        host = known.get(node.name, HostPlan(name=node.name, cores=(), roles=node.roles, wan=node.wan))
        made.append(
            host.model_copy(
                update={
                    "cores": tuple(core.cpu for core in in_order(node.cores)),
                    "oversubscription": oversubscription,
                    "capacity": node.capacity if node.capacity < len(node.cores) else None,
                    "mb_per_s": node.mb_per_s,
                }
            )
        )
    return tuple(made)


def _buffer_notes(plan: Plan) -> Iterator[str]:
    """Where freshness allows less than the buffer that was asked for; what merely fills no slot is not worth a word."""
    asked, sizes, algorithm = plan.job.distributed.buffer_size, plan.sizes, plan.job.algorithm
    if not isinstance(algorithm, PpoConfig) or not isinstance(asked, int):
        return
    shape = plan.learners_and_actors
    slot = shape.actors // shape.learners * sizes.rollout * sizes.num_envs  # one more of every ring of a learner
    if asked - sizes.buffer_size >= slot:
        yield (
            f"distributed.buffer_size is {sizes.buffer_size} instead of {asked}: "
            f"more than {sizes.buffer_size} would pass algorithm.max_lag {algorithm.max_lag}"
        )


def _notes(problem: Problem, plan: Plan) -> Iterator[str]:
    yield from _buffer_notes(plan)
    for node in problem.nodes:
        if node.capacity < len(node.cores):
            yield f"{node.name}: a quota allows {node.capacity:g} CPUs' worth of time"
    for host in plan.hosts:
        if not plan.on(host.name):
            yield f"{host.name}: nothing runs there yet; it stands ready"
    if any(p.role is Role.LEARNER and p.core_share < p.threads for p in plan.placements):
        yield "learners share their cores with the other components, which slows both"
    if any(core.thread for node in problem.nodes for core in node.cores):
        yield "some cores are hardware threads of the same physical core: they are used last"
    for link in links_of(plan) if any(node.mb_per_s for node in problem.nodes) else ():
        limit = link.limit_mb_per_s
        if link.mb_per_s is not None and limit is not None and link.mb_per_s > _NEARLY_FULL * limit:
            yield (
                f"{link.source} → {link.target}: about {link.mb_per_s:.0f} MB/s are to be sent, "
                f"and the network gives {limit:.0f} MB/s at most"
            )


def plan_bytes(plan: Plan) -> bytes:
    """The plan as it is written to a file: indented JSON with a final newline."""
    return plan.model_dump_json(indent=2).encode() + b"\n"
