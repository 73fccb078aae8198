"""Plans made by hand, so that tests of the runtime need no planner."""

from __future__ import annotations

from typing import Any

from runtime.contract.job import Job
from runtime.contract.plan import Fingerprints, HostPlan, Placement, Plan
from runtime.contract.shape import Shape
from runtime.contract.sizes import resolve_sizes
from runtime.contract.states import Role
from runtime.envs.probe import probe


def make_job(name: str = "ppo", **parts: Any) -> Job:
    """A CartPole job; `parts` are merged into it."""
    content: dict[str, Any] = {
        "name": "test",
        "env": {"id": "CartPole-v1", "num_envs": 8},
        "algorithm": {"name": name, "rollout": 8},
    }
    for key, value in parts.items():
        content[key] = {**content.get(key, {}), **value} if isinstance(value, dict) else value
    return Job.model_validate(content)


def make_plan(job: Job, shape: str = "L1A1", cores: tuple[int, ...] = (0,)) -> Plan:
    """Every component on the same cores of this machine."""
    wanted, env = Shape.parse(shape), probe(job.env)
    placements = []

    def place(role: Role, index: int, group: int) -> None:
        placements.append(
            Placement(
                name=f"{role}-{index}", role=role, index=index, group=group, host="localhost", cores=cores, core_share=1
            )
        )

    actor = 0
    for group in range(wanted.learners):
        place(Role.LEARNER, group, group)
        place(Role.BUFFER, group, group)
        for _ in range(wanted.actors_of_group(group)):
            place(Role.ACTOR, actor, group)
            actor += 1
    return Plan(
        shape=shape,
        job=job,
        env=env,
        sizes=resolve_sizes(job, wanted, env),
        hosts=(HostPlan(name="localhost", cores=cores),),
        placements=tuple(placements),
        fingerprints=Fingerprints(job="-", inventory="-"),
        solver="by hand",
    )
