"""Resolve every size that a job leaves to be chosen: environments, batches, buffers, slots. Pure arithmetic.

Letters: T env steps per fragment, B environments per actor, F fragments per batch, N_s samples a buffer holds, and
P = batch size / N_s, which `training.staleness_tolerance` bounds from above.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log
from typing import TYPE_CHECKING

from runtime.contract.algorithm import DqnConfig, PpoConfig
from runtime.contract.plan import Sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
    from runtime.contract.shape import Shape

_SLACK = 1e-9  #: relative; 2048 / 10240 must pass a tolerance written as 0.2
_LEAST_SLOTS = 2  #: of any ring
#: An on-policy buffer holds at least one batch in its rings and two behind them.
_LARGEST_ON_POLICY_RATIO = 1 / (1 + _LEAST_SLOTS)
_ON_POLICY_BATCH = 8_192  #: an automatic on-policy batch grows with the actors up to here
_OFF_POLICY_BATCH = 256
_OFF_POLICY_BUFFER = 65_536
_OFF_POLICY_TOLERANCE = 0.25


class SizesError(ValueError):
    """Sizes that cannot go together; `hint` says which would."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def resolve_sizes(job: Job, shape: Shape, env_spec: EnvSpec) -> Sizes:
    """Choose every `auto` of the job for this shape; SizesError where explicit numbers contradict each other.

    Explicit numbers are kept. The one exception is an on-policy `buffer_size`: it bounds what the rings hold, and
    where it is so large that waiting samples would pass `algorithm.max_lag`, less is used.
    """
    check_pool_ratio(job)
    if isinstance(job.algorithm, PpoConfig):
        return _OnPolicy.of(job, job.algorithm, shape, env_spec).resolve()
    return _off_policy(job, job.algorithm, env_spec)


def within_bounds(job: Job, shape: Shape, env_spec: EnvSpec, sizes: Sizes) -> bool:
    """Whether `sizes` keep the bounds of automatic ones for this shape: of the batch, and on-policy of freshness."""
    if not isinstance(job.algorithm, PpoConfig):
        return isinstance(job.training.batch_size, int) or sizes.batch_size <= _OFF_POLICY_BATCH
    return _OnPolicy.of(job, job.algorithm, shape, env_spec).within_bounds(sizes)


def check_pool_ratio(job: Job) -> None:
    """Refuse an explicit batch and buffer whose ratio P is above the tolerance; needs no machine."""
    batch, buffer = job.training.batch_size, job.distributed.buffer_size
    if not isinstance(batch, int) or not isinstance(buffer, int):
        return
    tolerance = _tolerance(job)
    if batch <= buffer and _within(batch / buffer, tolerance):
        return
    step = job.algorithm.rollout if job.on_policy else 1
    if job.on_policy and isinstance(job.env.num_envs, int):
        step *= job.env.num_envs
    bound = min(tolerance, _LARGEST_ON_POLICY_RATIO) if job.on_policy else tolerance
    fitting_batch = floor(buffer * bound * (1 + _SLACK)) // step * step
    fitting_buffer = _samples_for(batch, bound)
    choices = [f"distributed.buffer_size: {fitting_buffer} (or more, or auto)"]
    if fitting_batch:
        choices.insert(0, f"training.batch_size: {fitting_batch} (or less, or auto)")
    if batch > buffer:
        message = f"training.batch_size {batch} is larger than distributed.buffer_size {buffer}"
    else:
        message = (
            f"training.batch_size {batch} / distributed.buffer_size {buffer} gives P = {batch / buffer:.4g}, "
            f"above training.staleness_tolerance {tolerance:g}"
        )
    raise SizesError(message, hint=f"these would fit: {', or '.join(choices)}")


def _tolerance(job: Job) -> float:
    asked = job.training.staleness_tolerance
    if not isinstance(asked, str):
        return float(asked)
    return 1.0 if job.on_policy else _OFF_POLICY_TOLERANCE


def _within(ratio: float, tolerance: float) -> bool:
    return ratio <= tolerance * (1 + _SLACK)


def _samples_for(batch: int, tolerance: float) -> int:
    """The smallest buffer whose P with `batch` is within the tolerance."""
    return max(batch, ceil(batch / tolerance * (1 - _SLACK)))


def _off_policy(job: Job, algorithm: DqnConfig, env_spec: EnvSpec) -> Sizes:
    tolerance = _tolerance(job)
    asked_batch, asked_buffer = job.training.batch_size, job.distributed.buffer_size
    room = asked_buffer if isinstance(asked_buffer, int) else _OFF_POLICY_BUFFER
    fitting = max(1, min(_OFF_POLICY_BATCH, floor(room * tolerance * (1 + _SLACK))))
    batch = asked_batch if isinstance(asked_batch, int) else fitting
    enough = max(_OFF_POLICY_BUFFER, _samples_for(batch, tolerance), algorithm.learning_starts)
    buffer = asked_buffer if isinstance(asked_buffer, int) else enough
    if not _within(batch / buffer, tolerance):
        raise SizesError(
            f"distributed.buffer_size {buffer} allows no batch within training.staleness_tolerance {tolerance:g}",
            hint=f"distributed.buffer_size: {_samples_for(batch, tolerance)} (or more, or auto)",
        )
    if algorithm.learning_starts > buffer:
        raise SizesError(
            f"algorithm.learning_starts {algorithm.learning_starts} is more than distributed.buffer_size {buffer}: "
            "learning would never start",
            hint=f"algorithm.learning_starts: {buffer} (or less), or a larger distributed.buffer_size",
        )
    num_envs = _off_policy_envs(job, algorithm.rollout, buffer, env_spec)
    return Sizes(
        num_envs=num_envs,
        rollout=algorithm.rollout,
        batch_size=batch,
        fragments_per_batch=0,
        buffer_size=buffer,
        ring_slots=4,
        batch_slots=4,
        publish_every=_publish_every(job, default=4),
        staleness_tolerance=tolerance,
        pool_ratio=batch / buffer,
    )


def _off_policy_envs(job: Job, rollout: int, buffer: int, env_spec: EnvSpec) -> int:
    """Environments per actor; a fragment has to fit into the replay memory whole."""
    asked, most = job.env.num_envs, buffer // rollout
    if isinstance(asked, int) and asked <= most:
        return asked
    if most < 1 or isinstance(asked, int):
        samples = rollout * (asked if isinstance(asked, int) else 1)
        raise SizesError(
            f"one fragment has {samples} samples (algorithm.rollout * env.num_envs), "
            f"more than distributed.buffer_size {buffer}",
            hint=f"distributed.buffer_size: {samples} (or more, or auto)",
        )
    return min(16 if env_spec.native_vector else 8, most)


def _publish_every(job: Job, *, default: int) -> int:
    asked = job.training.publish_every
    return asked if isinstance(asked, int) else default


@dataclass(frozen=True, slots=True)
class _Batching:
    """One way to make on-policy batches: B environments per actor, F fragments per batch."""

    num_envs: int
    fragments: int


@dataclass(frozen=True, slots=True)
class _OnPolicy:
    """On-policy sizes: the buffer is a queue, so N_s is what rings and batch slots of the smallest group hold."""

    job: Job
    rollout: int
    max_lag: int
    most_actors: int  #: of the largest group
    least_actors: int  #: of the smallest group
    native: bool
    tolerance: float

    @classmethod
    def of(cls, job: Job, algorithm: PpoConfig, shape: Shape, env_spec: EnvSpec) -> _OnPolicy:
        return cls(
            job=job,
            rollout=algorithm.rollout,
            max_lag=algorithm.max_lag,
            most_actors=shape.actors_of_group(0),
            least_actors=shape.actors_of_group(shape.learners - 1),
            native=env_spec.native_vector,
            tolerance=_tolerance(job),
        )

    def resolve(self) -> Sizes:
        """The first batching that the explicit numbers leave room for."""
        batchings = list(self._batchings())
        for batching in batchings:
            slots = self._ring_slots(batching)
            if slots is not None:
                return self._sizes(batching, slots)
        raise self._too_small(batchings[-1])

    def _batchings(self) -> Iterator[_Batching]:
        batch, envs = self.job.training.batch_size, self.job.env.num_envs
        if isinstance(batch, int):
            yield self._for_batch(batch)
            return
        for num_envs in [envs] if isinstance(envs, int) else self._env_choices():
            most = self._automatic_fragments(num_envs)
            for fragments in range(most, 0, -1):
                yield _Batching(num_envs, fragments)

    def _env_choices(self) -> list[int]:
        """Environments per actor, best first: many make a step cheap, but 16 actors need fewer each than one does."""
        choices = [64, 32, 16] if self.native else [8]
        while len(choices) > 1 and self.most_actors * self.rollout * choices[0] > 2 * _ON_POLICY_BATCH:
            choices.pop(0)
        smaller = choices[-1]
        while smaller > 1:
            smaller //= 2
            choices.append(smaller)
        return choices

    def _automatic_fragments(self, num_envs: int) -> int:
        """One fragment of each actor, fewer when that is a large batch; enough that waiting stays below `max_lag`."""
        capped = _ON_POLICY_BATCH // (self.rollout * num_envs)
        return max(1, min(self.most_actors, max(capped, self._fresh_enough)))

    @property
    def _fresh_enough(self) -> int:
        """Fragments of a batch with which waiting samples stay below `max_lag`."""
        return ceil(2 * self.most_actors / max(1, self.max_lag - _LEAST_SLOTS))

    def within_bounds(self, sizes: Sizes) -> bool:
        """Whether a batch is one that an automatic one could be: fresh enough, and no larger than that asks for."""
        fewest = min(self.most_actors, self._fresh_enough)
        most = max(_ON_POLICY_BATCH, fewest * sizes.fragment_samples)
        return sizes.fragments_per_batch >= fewest and sizes.batch_size <= most

    def _for_batch(self, batch: int) -> _Batching:
        """Split an explicit batch into whole fragments; SizesError names the nearest batches that can be."""
        envs = self.job.env.num_envs
        unit = self.rollout * (envs if isinstance(envs, int) else 1)
        if batch % unit:
            below, above = batch // unit * unit, (batch // unit + 1) * unit
            what = "algorithm.rollout * env.num_envs" if isinstance(envs, int) else "algorithm.rollout"
            raise SizesError(
                f"training.batch_size {batch} is no whole number of fragments of {unit} samples ({what})",
                hint=f"training.batch_size: {f'{below} or {above}' if below else above}, or auto",
            )
        if isinstance(envs, int):
            return _Batching(envs, batch // unit)
        return self._split(batch // self.rollout)

    def _split(self, columns: int) -> _Batching:
        """`columns` = F·B with F as near as can be to one fragment of each actor."""
        most_envs = 256 if self.native else 16
        divisors = [envs for envs in range(1, most_envs + 1) if columns % envs == 0]
        num_envs = min(divisors, key=lambda envs: (abs(log(columns / envs / self.most_actors)), -envs))
        return _Batching(num_envs, columns // num_envs)

    def _capacity(self, batching: _Batching, ring_slots: int) -> int:
        fragment = self.rollout * batching.num_envs
        return (self.least_actors * ring_slots + _LEAST_SLOTS * batching.fragments) * fragment

    def _least_ring_slots(self, batching: _Batching) -> int:
        """A batch is gathered from the rings of the group: together they must hold one whole."""
        return max(_LEAST_SLOTS, ceil(batching.fragments / self.least_actors))

    def _ring_slots(self, batching: _Batching) -> int | None:
        """Slots of each fragment ring, or none where they do not fit into an explicit buffer."""
        batch = batching.fragments * self.rollout * batching.num_envs
        per_ring_slot = self.least_actors * self.rollout * batching.num_envs
        buffer = self.job.distributed.buffer_size
        for_tolerance = ceil((_samples_for(batch, self.tolerance) - _LEAST_SLOTS * batch) / per_ring_slot)
        comfortable = ceil(batching.fragments / self.least_actors) + 1
        for floor_slots in (comfortable, self._least_ring_slots(batching)):
            fewest = max(floor_slots, for_tolerance)
            if not isinstance(buffer, int):
                return fewest
            room = (buffer - _LEAST_SLOTS * batch) // per_ring_slot
            fresh_enough = (self.max_lag - _LEAST_SLOTS) * batch // per_ring_slot
            if room >= fewest:
                return min(room, max(fewest, fresh_enough))
        return None

    def _sizes(self, batching: _Batching, ring_slots: int) -> Sizes:
        batch = batching.fragments * self.rollout * batching.num_envs
        capacity = self._capacity(batching, ring_slots)
        return Sizes(
            num_envs=batching.num_envs,
            rollout=self.rollout,
            batch_size=batch,
            fragments_per_batch=batching.fragments,
            buffer_size=capacity,
            ring_slots=ring_slots,
            batch_slots=_LEAST_SLOTS,
            publish_every=_publish_every(self.job, default=1),
            staleness_tolerance=self.tolerance,
            pool_ratio=batch / capacity,
        )

    def _too_small(self, smallest: _Batching) -> SizesError:
        """Only an explicit buffer can be too small: say how large it would have to be."""
        batch = smallest.fragments * self.rollout * smallest.num_envs
        least = self._capacity(smallest, self._least_ring_slots(smallest))
        per_ring_slot = self.least_actors * self.rollout * smallest.num_envs
        short = max(0, _samples_for(batch, self.tolerance) - least)
        least += ceil(short / per_ring_slot) * per_ring_slot
        return SizesError(
            f"distributed.buffer_size {self.job.distributed.buffer_size} is too small for batches of {batch} samples "
            f"from {self.least_actors} actors: one batch is trained on while the next is gathered",
            hint=f"distributed.buffer_size: {least} (or more, or auto)",
        )
