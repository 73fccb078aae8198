"""Plans over several nodes for tests of how plans change, and what must hold of each of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runtime.contract.arrangement import least_actors
from runtime.contract.envspec import EnvSpec
from runtime.contract.plan import Fingerprints, HostPlan, Plan
from runtime.contract.shape import Shape
from runtime.contract.sizes import resolve_sizes
from runtime.contract.states import Role
from support.plans import make_job
from support.spreading import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.contract.plan import Placement

ENV = EnvSpec(id="CartPole-v1", observation_shape=(4,), num_actions=2, native_vector=True, autoreset="next-step")


def nodes(*cores: int, roles: tuple[Role, ...] = ()) -> tuple[HostPlan, ...]:
    """Nodes tj1, tj2, … with so many cores each."""
    return tuple(
        HostPlan(name=f"tj{number}", cores=tuple(range(count)), roles=roles) for number, count in enumerate(cores, 1)
    )


def plan_over(
    hosts: Sequence[HostPlan], shape: str, *, oversubscribe: bool = False, algorithm: str = "ppo", **parts: object
) -> Plan:
    """A first plan; ArrangementError where the shape does not fit."""
    job = make_job(algorithm, distributed={"oversubscribe": oversubscribe}, **parts)
    wanted = Shape.parse(shape)
    sizes = resolve_sizes(job, wanted, ENV)
    return Plan(
        shape=shape,
        job=job,
        env=ENV,
        sizes=sizes,
        hosts=tuple(hosts),
        placements=spread(job, sizes, wanted, tuple(hosts)),
        fingerprints=Fingerprints(job="-", inventory="-"),
        solver="by hand",
    )


def staying(plan: Plan, role: Role | None = None) -> tuple[Placement, ...]:
    return tuple(p for p in plan.placements if not p.leaving and role in (None, p.role))


def shape_of(plan: Plan) -> str:
    """Of those who stay, whatever the plan says."""
    return f"L{len(staying(plan, Role.LEARNER))}A{len(staying(plan, Role.ACTOR))}"


def faults(plan: Plan, away: frozenset[str] = frozenset()) -> list[str]:
    """What no plan may be like."""
    found = [f"{name} is there twice" for name, n in Counter(p.name for p in plan.placements).items() if n > 1]
    cores = {host.name: set(host.cores) for host in plan.hosts}
    found += [
        f"{p.name} is on cores {p.cores} of {p.host}" for p in plan.placements if not set(p.cores) <= cores[p.host]
    ]
    found += [f"{p.name} has no core" for p in plan.placements if not p.cores]
    for learner in staying(plan, Role.LEARNER):
        buffers = [p for p in staying(plan, Role.BUFFER) if p.group == learner.group]
        if [p.host for p in buffers] != [learner.host]:
            found.append(f"{learner.name} has buffers on {[p.host for p in buffers]}")
        actors = [p for p in staying(plan, Role.ACTOR) if p.group == learner.group]
        if learner.host not in away and len(actors) < least_actors(plan.sizes):
            found.append(f"{learner.name} has {len(actors)} actors")
    groups = {p.group for p in staying(plan, Role.LEARNER)}
    found += [f"{p.name} is of no group" for p in staying(plan) if p.group not in groups]
    if not plan.job.distributed.oversubscribe:
        heavy = Counter(
            (p.host, core) for p in staying(plan) if p.role in (Role.LEARNER, Role.ACTOR) for core in p.cores
        )
        found += [f"core {core} of {host} has {n} heavy components" for (host, core), n in heavy.items() if n > 1]
    return found
