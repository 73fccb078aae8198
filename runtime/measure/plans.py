"""The small plans that are measured: one group, or a crowd of actors whose fragments nobody trains on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.algorithm import DqnConfig
from runtime.contract.forecast import bytes_per_step
from runtime.contract.job import StopConfig
from runtime.contract.plan import Fingerprints, HostPlan, Placement, Plan
from runtime.contract.states import Dependencies, Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.contract.job import Job
    from runtime.contract.measurement import MeasureRequest
    from runtime.contract.plan import Sizes

HOST = "localhost"
LEARNER, BUFFER = "learner-0", "buffer-0"
Cores = tuple[int, ...]
_MOST_REPLAY_BYTES = 1 << 30


def actor(index: int) -> str:
    """The name of the `index`-th actor."""
    return f"{Role.ACTOR}-{index}"


def small_plan(
    request: MeasureRequest,
    *,
    learner: Cores,
    buffer: Cores,
    actors: Sequence[Cores],
    threads: int = 1,
    sizes: Sizes | None = None,
    remembers: bool = True,
) -> Plan:
    """One group of the job, everything relaxed, begun at once and ended by nobody. The cores are those of each part.

    Where nobody looks at what it costs, a replay memory need not remember much. None takes more than a GiB: what a
    larger one costs more is in the noise, and filling it would take longer than there is time.
    """
    sizes = _with_memory(request, sizes or request.sizes, remembers=remembers)
    wanted = [(Role.LEARNER, 0, learner, threads), (Role.BUFFER, 0, buffer, 1)]
    wanted += [(Role.ACTOR, index, cores, 1) for index, cores in enumerate(actors)]
    return Plan(
        shape=f"L1A{len(actors)}",
        job=_endless(request.job, sizes.batch_size),
        env=request.env,
        sizes=sizes,
        hosts=(HostPlan(name=HOST, cores=request.cores),),
        placements=tuple(
            Placement(
                name=f"{role}-{index}",
                role=role,
                index=index,
                group=0,
                host=HOST,
                cores=cores,
                core_share=1.0,
                threads=count,
            )
            for role, index, cores, count in wanted
        ),
        fingerprints=Fingerprints(job="", inventory=""),
        solver="measurement",
    )


def _with_memory(request: MeasureRequest, sizes: Sizes, *, remembers: bool) -> Sizes:
    if request.job.on_policy:
        return sizes
    least = max(4 * sizes.batch_size, 4 * sizes.fragment_samples)
    most = _MOST_REPLAY_BYTES // bytes_per_step(request.env) if remembers else least
    return sizes.model_copy(update={"buffer_size": min(sizes.buffer_size, max(least, most))})


def _endless(job: Job, batch: int) -> Job:
    training = job.training.model_copy(update={"dependencies": Dependencies.RELAXED, "stop": StopConfig()})
    algorithm = job.algorithm
    if isinstance(algorithm, DqnConfig):  # a slow environment would take longer to fill the memory than there is time
        algorithm = algorithm.model_copy(update={"learning_starts": min(batch, algorithm.learning_starts)})
    return job.model_copy(update={"training": training, "algorithm": algorithm})
