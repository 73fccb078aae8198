"""From a job to a plan for this machine: gathers the facts, asks the environment for its shapes, then plans."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from runtime.contract.plan import Fingerprints
from runtime.contract.shape import Shape
from runtime.contract.sizes import SizesError
from tianjictl.errors import UsageProblem
from tianjictl.launching.trackers import refuse_missing_trackers
from tianjictl.planning.build import make_plan
from tianjictl.planning.decide import is_open
from tianjictl.planning.infeasible import refuse_what_cannot_fit
from tianjictl.planning.stating import node_of, state
from tianjictl.profiling import store
from tianjictl.profiling.calibration import Calibrated, learnt_from_runs
from tianjictl.profiling.local import local_facts, measured_profile, measured_sizes
from tianjictl.profiling.probing import EnvProbe
from tianjictl.profiling.profile import HostProfile, inventory_digest, job_digest, profile_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
    from runtime.contract.measurement import MeasureProgress
    from runtime.contract.plan import Plan
    from tianjictl.planning.problem import Problem
    from tianjictl.planning.solution import Solution
    from tianjictl.profiling.facts.host import HostFacts
    from tianjictl.profiling.profile import ClusterProfile


def plan_for_this_machine(
    job: Job,
    *,
    shape: str | None = None,
    oversubscribe: bool = False,
    profile_path: Path | None = None,
    progress: Callable[[str], None] = lambda _line: None,
    seen: Callable[[HostFacts], None] = lambda _facts: None,
    decided: Callable[[Problem, Solution], None] = lambda _problem, _solution: None,
) -> Plan:
    """Plan `job` on the local host. `seen` is told what was found before anything is planned with it, `decided` what
    an explanation needs.

    `shape` (`L2A8`) overrides the job's counts, `oversubscribe` lets components share cores, `profile_path` names a
    saved profile instead of the cached one. Where a number is `auto`, more than one shape fits and nothing was
    measured yet, short measurements run first (up to 10 s, each announced through `progress`).
    Raises `tianjictl.errors.Infeasible` if no placement exists and `tianjictl.errors.UsageProblem` if the environment
    cannot be made or the job's sizes contradict each other.
    """
    refuse_missing_trackers(job)
    job = with_counts(job, shape, oversubscribe=oversubscribe)
    try:
        with EnvProbe(job.env) as probe:
            facts = local_facts()
            seen(facts)
            return _plan(job, probe.spec(progress), facts, profile_path, progress, decided)
    except SizesError as error:
        raise UsageProblem(error.message, hint=error.hint) from error


def _plan(
    job: Job,
    env: EnvSpec,
    facts: HostFacts,
    profile_path: Path | None,
    progress: Callable[[str], None],
    decided: Callable[[Problem, Solution], None],
) -> Plan:
    problem = state(job, env, [node_of(facts)])
    refuse_what_cannot_fit(problem)  # before anything is measured
    profile = _known_profile(job, env, facts, profile_path)
    if profile is None and is_open(problem):
        progress("nothing measured yet for this job on this machine: measuring first")
        profile = measured_profile(job, env, facts, progress=lambda step: progress(progress_line(step)))
    host = _host_of(profile, facts)
    keys: dict[str, str] = {}
    learnt = Calibrated({})
    if profile is not None and host is not None and host.measured is not None:
        keys = {facts.name: profile_key(facts, job, measured_sizes(job, env))}
        measured_at = {facts.name: profile.created_at} if profile_path is None else {}
        learnt = learnt_from_runs({facts.name: host.measured}, keys, measured_at)
        speeds = learnt.speeds[facts.name]
        nodes_at = (lambda sizes: [node_of(facts, speeds.at(sizes))]) if learnt.scales else None
        problem = state(job, env, [node_of(facts, speeds.at())], nodes_at)
    prints = Fingerprints(
        job=job_digest(job), inventory=inventory_digest(facts), profile=None if profile is None else profile.digest
    )
    plan = make_plan(
        problem, job, env, prints, rates_at=learnt.at, profile_keys=keys, notes=learnt.notes, decided=decided
    )
    refuse_what_looks_frozen(plan)
    return plan


def refuse_what_looks_frozen(plan: Plan) -> None:
    """UsageProblem where one step of an actor's environments takes so long that the actor would be taken for frozen."""
    one, limit = plan.env.slow_step_s, plan.job.health.steady
    if one is None:
        return
    envs = 1 if plan.env.native_vector else plan.sizes.num_envs
    whole = one * envs
    if whole <= limit / 2:
        return
    each = "" if envs == 1 else f", and an actor has {envs} of them to step one after the other"
    fewer = "" if envs == 1 else ", or fewer environments for each actor: --set env.num_envs=1"
    raise UsageProblem(
        f"a step of environment {plan.env.id} takes {one:g} s{each}: with health.steady {limit:g} s the actor would "
        "be taken for frozen and killed",
        hint=f"allow for it: --set health.steady={ceil(whole * 3)}s{fewer}",
    )


def progress_line(step: MeasureProgress) -> str:
    """One step of measuring, for a person."""
    return f"measuring {step.doing} ({step.done + 1}/{step.total})"


def with_counts(job: Job, shape: str | None, *, oversubscribe: bool) -> Job:
    """The job as asked for on the command line: the plan's job says what really runs."""
    try:
        wanted = None if shape is None else Shape.parse(shape)
    except ValueError as error:
        raise UsageProblem(f"--shape: {error}") from error
    changes: dict[str, object] = {}
    if wanted is not None:
        changes |= {"learners": wanted.learners, "actors": wanted.actors}
    if oversubscribe:
        changes["oversubscribe"] = True
    if not changes:
        return job
    return job.model_copy(update={"distributed": job.distributed.model_copy(update=changes)})


def _known_profile(job: Job, env: EnvSpec, facts: HostFacts, path: Path | None) -> ClusterProfile | None:
    """The named profile, else the cached one for exactly this machine and kind of job."""
    if path is not None:
        return store.load(path)
    return store.cached(profile_key(facts, job, measured_sizes(job, env)))


def _host_of(profile: ClusterProfile | None, facts: HostFacts) -> HostProfile | None:
    if profile is None:
        return None
    for host in profile.hosts:
        if host.facts.name == facts.name:
            return host
    raise UsageProblem(f"the profile knows nothing of {facts.name}", hint="tianjictl profile JOB measures this machine")
