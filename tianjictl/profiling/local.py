"""The profile of this machine: facts, and rates from the cache or from short measurements."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.measurement import MeasureRequest
from runtime.contract.paths import runs_home
from runtime.contract.shape import Shape
from runtime.contract.sizes import resolve_sizes
from runtime.contract.sizings import admitted, opened, sizings
from tianjictl.hosts.local import LocalHost
from tianjictl.profiling import store
from tianjictl.profiling.facts.host import HostFacts, understand
from tianjictl.profiling.facts.raw import gather
from tianjictl.profiling.probing import measure
from tianjictl.profiling.profile import ClusterProfile, HostProfile, profile_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
    from runtime.contract.measurement import MeasureProgress
    from runtime.contract.plan import Sizes

_OTHER_BATCHES = 4  #: each takes a quarter of a second


def local_facts(*, devices: bool = False) -> HostFacts:
    """Facts of this machine; takes milliseconds unless `devices` asks for GPUs too."""
    return understand(gather(LocalHost(), run_folder=runs_home(), devices=devices))


def measured_profile(
    job: Job, env: EnvSpec, facts: HostFacts, *, several: bool = False, progress: Callable[[MeasureProgress], None]
) -> ClusterProfile:
    """Measure this machine for `job` and keep the result in the cache; takes seconds. UsageProblem where it cannot be
    kept.

    `several`: it is one of several nodes that are measured at once.
    """
    store.open_store()
    sizes = measured_sizes(job, env)
    place = LocalHost().disk(runs_home())
    # Measured where checkpoints will lie, in a folder of its own: the run folder may not exist yet.
    with tempfile.TemporaryDirectory(prefix=".measure-", dir=place[0] if place else None) as folder:
        report = measure(measure_request(job, env, sizes, facts, Path(folder), several=several), progress)
    profile = ClusterProfile(
        key=profile_key(facts, job, sizes),
        created_at=datetime.now(UTC),
        hosts=(HostProfile(facts=facts, measured=report),),
    )
    store.keep(profile)
    return profile


def measure_request(
    job: Job, env: EnvSpec, sizes: Sizes, facts: HostFacts, folder: Path, *, several: bool = False
) -> MeasureRequest:
    """What to measure: the sizes of one group with one actor, learners on 1, 2, 4, … cores.

    Time that strangers take meanwhile is left out, also where these are other nodes of the same machine: a plan gives
    each its cores, and does not fill all of them as measuring does. What a hypervisor takes stays in.
    Of `several` nodes, some may talk to each other by couriers.
    """
    usable = facts.cpu.usable
    counts = [1]
    while counts[-1] * 2 < len(usable):  # one core at least is left for an actor
        counts.append(counts[-1] * 2)
    asked = job.distributed.learner_cores
    if isinstance(asked, int) and asked <= len(usable):
        counts = sorted({*counts, asked})
    return MeasureRequest(
        job=job,
        env=env,
        sizes=sizes,
        cores=usable,
        learner_cores=tuple(counts),
        other_sizes=other_sizes(job, env),
        couriers=several,
        leave_out_strangers=True,
        folder=str(folder),
    )


def measured_sizes(job: Job, env: EnvSpec) -> Sizes:
    """Sizes to measure with: those of the job's own counts where it has them, for they decide how many environments
    an actor has."""
    return resolve_sizes(job, _measured_shape(job), env)


def _measured_shape(job: Job) -> Shape:
    learners = job.distributed.learners if isinstance(job.distributed.learners, int) else 1
    actors = job.distributed.actors if isinstance(job.distributed.actors, int) else learners
    return Shape(learners, max(learners, actors))


def other_sizes(job: Job, env: EnvSpec) -> tuple[Sizes, ...]:
    """Sizes that a plan may choose instead, and those that it could if the job said less: few of them, for each takes
    time. Costs of those between follow from these.
    """
    shape = _measured_shape(job)
    usual = resolve_sizes(job, shape, env)
    jobs = [job, *(each.job for each in opened(job))]
    known = [
        (sizes.num_envs, sizes.batch_size, sizes)
        for each in jobs
        for sizing in sizings(each, shape, env)
        if (sizes := admitted(each, sizing, shape, env)) is not None
    ]
    envs = {num_envs for num_envs, _, _ in known if num_envs != usual.num_envs}
    if isinstance(job.env.num_envs, int):
        envs = {number for number in envs if number > usual.num_envs}  # only more of them may be worth asking for
    batches = sorted({batch for _, batch, _ in known if batch != usual.batch_size})
    while len(batches) > _OTHER_BATCHES:  # the extremes stay, and of the rest what is furthest from its neighbours
        ratios = [batches[i + 1] / batches[i - 1] for i in range(1, len(batches) - 1)]
        del batches[ratios.index(min(ratios)) + 1]
    found: list[Sizes] = []
    for num_envs, batch, sizes in known:
        if num_envs in envs or batch in batches:
            found.append(sizes)
            envs.discard(num_envs)
            if batch in batches:
                batches.remove(batch)
    return tuple(found)
