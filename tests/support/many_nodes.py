"""Plans over several nodes, made by hand: who is where is written out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.plan import HostPlan, NamesUsed, Placement
from runtime.contract.states import Role
from support.plans import make_job, make_plan

if TYPE_CHECKING:
    from runtime.contract.job import Job
    from runtime.contract.plan import Plan

LOOPBACK = "127.0.0.0/8"


def placed(name: str, host: str, group: int = 0, *, cores: tuple[int, ...] = (0,), leaving: bool = False) -> Placement:
    """`actor-3` of a group, on a host."""
    role, _, index = name.partition("-")
    return Placement(
        name=name, role=Role(role), index=int(index), group=group, host=host, cores=cores, core_share=1, leaving=leaving
    )


def plan_over(*placements: Placement, job: Job | None = None, revision: int = 1, wan: bool = False) -> Plan:
    """A plan of these; its hosts are theirs, in the order of first mention. `wan`: all are far from each other."""
    dull = make_plan(job or make_job())
    hosts = tuple(
        HostPlan(name=name, cores=(0,), network=LOOPBACK, wan=wan) for name in dict.fromkeys(p.host for p in placements)
    )
    actors = [p for p in placements if p.role is Role.ACTOR]
    learners = [p for p in placements if p.role is Role.LEARNER]
    return dull.model_copy(
        update={
            "revision": revision,
            "shape": f"L{len(learners)}A{len(actors)}",
            "hosts": hosts,
            "placements": placements,
            "names_used": NamesUsed(
                actors=max((p.index for p in actors), default=-1) + 1,
                groups=max((p.group for p in learners), default=-1) + 1,
            ),
        }
    )
