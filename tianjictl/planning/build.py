"""From a problem to a Plan. Pure: the same input gives the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.plan import Fingerprints, HostPlan, Plan
from runtime.contract.sizes import resolve_sizes
from tianjictl.planning.choice import oversubscription, sharing_of
from tianjictl.planning.decide import decide
from tianjictl.planning.explain import predict
from tianjictl.planning.placement import place

if TYPE_CHECKING:
    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
    from tianjictl.planning.choice import Choice
    from tianjictl.planning.problem import Problem


def make_plan(problem: Problem, job: Job, env: EnvSpec, fingerprints: Fingerprints) -> Plan:
    """Decide, place and predict; raises Infeasible, or SizesError where the job's sizes contradict each other."""
    solution = decide(problem)
    choice = solution.choice
    sizes = resolve_sizes(job, choice.shape, env)
    return Plan(
        shape=str(choice.shape),
        job=job,
        env=env,
        sizes=sizes,
        hosts=(
            HostPlan(
                name=problem.host.name,
                cores=tuple(sorted(core.cpu for core in problem.host.cores)),
                oversubscription=round(oversubscription(problem, choice), 6),
            ),
        ),
        placements=place(problem, choice),
        predicted=predict(problem, choice, sizes),
        fingerprints=fingerprints,
        solver=solution.proof,
        notes=_notes(problem, choice),
    )


def _notes(problem: Problem, choice: Choice) -> tuple[str, ...]:
    notes = []
    host = problem.host
    if host.capacity < problem.num_cores:
        notes.append(f"{host.name}: a quota allows {host.capacity:g} CPUs' worth of time")
    if not sharing_of(problem, choice).exclusive:
        notes.append("learners share their cores with the other components, which slows both")
    if any(core.thread for core in host.cores):
        notes.append("some cores are hardware threads of the same physical core: they are used last")
    return tuple(notes)


def plan_bytes(plan: Plan) -> bytes:
    """The plan as it is written to a file: indented JSON with a final newline."""
    return plan.model_dump_json(indent=2).encode() + b"\n"
