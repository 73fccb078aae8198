"""Other sizes than the usual ones that a job leaves room for: what a planner may choose from. Pure.

`resolve_sizes` picks one set of sizes by rule. Around it lie others that keep every bound of the job as well: half as
many environments or twice as many, smaller and larger batches, smaller buffers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import log2
from typing import TYPE_CHECKING

from runtime.contract.sizes import SizesError, resolve_sizes, within_bounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
    from runtime.contract.plan import Sizes
    from runtime.contract.shape import Shape

_PARTS_OF_A_BUFFER = (2, 4)


@dataclass(frozen=True, slots=True)
class Sizing:
    """What stands in for the `auto`s of a job; None: as `resolve_sizes` chooses."""

    num_envs: int | None = None  #: environments per actor
    batch_size: int | None = None  #: samples per update of one learner
    buffer_size: int | None = None  #: samples one buffer holds


USUAL = Sizing()


@dataclass(frozen=True, slots=True)
class Opened:
    """The job with one bound of its sizes left to be chosen."""

    key: str  #: of the job, `training.batch_size`
    value: float
    job: Job


def sized(job: Job, sizing: Sizing) -> Job:
    """The job whose sizes are meant, with those of the sizing filled in."""
    if sizing == USUAL:
        return job
    changes: dict[str, object] = {}
    if sizing.num_envs is not None:
        changes["env"] = job.env.model_copy(update={"num_envs": sizing.num_envs})
    if sizing.batch_size is not None:
        changes["training"] = job.training.model_copy(update={"batch_size": sizing.batch_size})
    if sizing.buffer_size is not None:
        changes["distributed"] = job.distributed.model_copy(update={"buffer_size": sizing.buffer_size})
    return job.model_copy(update=changes)


def admitted(job: Job, sizing: Sizing, shape: Shape, env: EnvSpec) -> Sizes | None:
    """The sizes of a sizing for this shape; None where it breaks a bound of the job there."""
    try:
        sizes = resolve_sizes(sized(job, sizing), shape, env)
    except SizesError:
        return None
    # What the job itself says is not judged here.
    chosen = (sizing.num_envs, sizing.batch_size) != (None, None)
    return None if chosen and not within_bounds(job, shape, env, sizes) else sizes


def sizings(job: Job, shape: Shape, env: EnvSpec) -> tuple[Sizing, ...]:
    """All that the job admits for this shape, the usual first, then the nearest to it; no two come to the same sizes.

    SizesError where the job's own numbers contradict each other.
    """
    usual = resolve_sizes(job, shape, env)
    known: dict[tuple[int, int, int], Sizing] = {_numbers(usual): USUAL}
    for sizing in _around(job, usual):
        sizes = admitted(job, sizing, shape, env)
        if sizes is not None:
            known.setdefault(_numbers(sizes), sizing)
    order = sorted(known, key=lambda numbers: (_distance(numbers, _numbers(usual)), numbers))
    return tuple(known[numbers] for numbers in order)


def opened(job: Job) -> Iterator[Opened]:
    """Each number by which the job bounds its sizes, left out."""
    training, distributed, env = job.training, job.distributed, job.env
    for key, section, value in (
        ("training.staleness_tolerance", training, training.staleness_tolerance),
        ("training.batch_size", training, training.batch_size),
        ("distributed.buffer_size", distributed, distributed.buffer_size),
        ("env.num_envs", env, env.num_envs),
    ):
        if not isinstance(value, str):
            part, name = key.split(".")
            free = section.model_copy(update={name: "auto"})
            yield Opened(key, float(value), job.model_copy(update={part: free}))


def _around(job: Job, usual: Sizes) -> Iterator[Sizing]:
    """What may be tried; a None comes first, so that of two ways to say the same the plainer one is kept."""
    envs: list[int | None] = [None]
    if isinstance(job.env.num_envs, str):
        envs += [n for n in (usual.num_envs // 2, 2 * usual.num_envs, usual.num_envs) if n]
    batches: list[int | None] = [None]
    if isinstance(job.training.batch_size, str):
        batches += [b for b in (usual.batch_size // 2, 2 * usual.batch_size, usual.batch_size) if b]
    buffers: list[int | None] = [None]
    if not job.on_policy and isinstance(job.distributed.buffer_size, str):
        buffers += [usual.buffer_size // part for part in _PARTS_OF_A_BUFFER]
    # An on-policy batch is split into fragments: where they are open, too, that would change the environments.
    both = job.on_policy and len(envs) > 1
    for buffer, batch, num_envs in product(buffers, batches, envs):
        if not (both and batch is not None and num_envs is None):
            yield Sizing(num_envs, batch, buffer)


def _numbers(sizes: Sizes) -> tuple[int, int, int]:
    return sizes.num_envs, sizes.batch_size, sizes.buffer_size


def _distance(numbers: tuple[int, int, int], usual: tuple[int, int, int]) -> float:
    """Doublings; written with few digits, for they are compared."""
    return round(sum(abs(log2(a / b)) for a, b in zip(numbers, usual, strict=True)), 3)
