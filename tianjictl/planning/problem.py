"""The planning problem: everything the solver may know, as numbers. Made from job, environment, facts and rates.

Pure: no clock, no files. Rates are absent where nothing was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.contract.algorithm import DqnConfig
from runtime.contract.shape import Shape
from runtime.contract.sizes import resolve_sizes
from runtime.contract.states import Dependencies

if TYPE_CHECKING:
    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
    from runtime.contract.measurement import MeasureReport
    from runtime.contract.plan import Sizes
    from tianjictl.profiling.facts.cpus import Core
    from tianjictl.profiling.facts.host import HostFacts

MOST_PER_CORE = 64  #: components that may share one core: beyond it, switching between them is all a core does
_MIB = 1 << 20
_MEMORY_SHARE = 0.9  #: of the limit: the rest is for the system and for what these estimates miss


@dataclass(frozen=True, slots=True)
class Charges:
    """Shares of a core for what needs less than one."""

    buffer: float = 0.25  #: used until its cost per sample is measured
    evaluator: float = 0.25
    node: float = 0.1  #: agent and coordinator together
    link: float = 0.2  #: couriers at both ends of a host's link to the rest


@dataclass(frozen=True, slots=True)
class MemoryNeeds:
    """Bytes that one component of each kind takes, and what a run takes once."""

    actor: int
    learner: int  #: with its buffer
    once: int

    def of(self, learners: int, actors: int) -> int:
        return self.once + learners * self.learner + actors * self.actor


@dataclass(frozen=True, slots=True)
class Rates:
    """Measured on one host; a sample counts once, however many epochs train on it."""

    actor_steps_per_s: float  #: one actor on a whole core, its neighbours busy
    learner_samples_per_s: tuple[tuple[int, float], ...]  #: (cores, rate), cores rising
    buffer_s_per_step: float  #: core seconds of a buffer per environment step

    def learner(self, cores: int) -> float:
        """Rate of one learner on `cores` cores: as measured, between two measured counts on the line, else the last."""
        below = (0, 0.0)
        for count, rate in self.learner_samples_per_s:
            if cores == count:
                return rate
            if cores < count:
                return below[1] + (rate - below[1]) * (cores - below[0]) / (count - below[0])
            below = (count, rate)
        return below[1]


@dataclass(frozen=True, slots=True)
class HostProblem:
    """One node: usable CPUs, how much time they have together, and bytes of memory."""

    name: str
    cores: tuple[Core, ...]
    capacity: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Pool:
    """One of several hosts: how many cores it has, and what may run there. A buffer goes with its learner."""

    name: str
    cores: int
    learners: bool = True
    actors: bool = True


@dataclass(frozen=True, slots=True)
class Problem:
    """What to place and where. None for a count means: choose it.

    With `pools` the host stands for several: it has their cores, and what fits it must fit them too.
    """

    host: HostProblem
    learners: int | None
    actors: int | None
    learner_cores: int | None
    least: Shape | None
    most: Shape | None
    oversubscribe: bool
    evaluator: bool
    trained_per_step: float  #: samples trained on per environment step: 1 on-policy, the pace rule's target otherwise
    turns: bool  #: actors and learners take turns instead of working side by side
    memory: MemoryNeeds
    rates: Rates | None = None
    charges: Charges = Charges()
    pools: tuple[Pool, ...] = ()  #: the hosts, where there are several

    @property
    def num_cores(self) -> int:
        return len(self.host.cores)

    def light(self, learners: int) -> float:
        """Core shares charged for buffers, evaluator, agent and coordinator."""
        return self.fixed_light + learners * self.charges.buffer

    @property
    def fixed_light(self) -> float:
        """The same without the buffers."""
        links = max(0, len(self.pools) - 1)
        nodes = self.charges.node * (links + 1) + self.charges.link * links
        return nodes + (self.charges.evaluator if self.evaluator else 0.0)

    def learner_core_choices(self) -> tuple[int, ...]:
        """Cores per learner that may be chosen: only counts whose speed is known."""
        if self.learner_cores is not None:
            return (self.learner_cores,)
        if self.rates is None:
            return (1,)
        most = max((pool.cores for pool in self.pools if pool.learners), default=self.num_cores)
        return tuple(count for count, _ in self.rates.learner_samples_per_s if count <= most) or (1,)

    def learner_room(self, learner_cores: int) -> int:
        """How many learners the hosts can hold, each inside one of them and on cores of its own."""
        if not self.pools:
            return self.num_cores // learner_cores
        return sum(pool.cores // learner_cores for pool in self.pools if pool.learners)

    def only_for_learners(self, learner_cores: int) -> int:
        """How many learners fit hosts that no actor may use."""
        return sum(pool.cores // learner_cores for pool in self.pools if pool.learners and not pool.actors)

    @property
    def cores_for_actors(self) -> int:
        """Cores of hosts that may hold actors, as if no learner were there."""
        return sum(pool.cores for pool in self.pools if pool.actors) if self.pools else self.num_cores

    def beside_actors(self, learner_cores: int) -> int:
        """Learners that share a host with actors in any case: the first one is on the head, if there is room."""
        return int(bool(self.pools) and self.pools[0].actors and self.pools[0].cores >= learner_cores)

    def actor_room(self, learners: int, learner_cores: int) -> int:
        """How many actors find a core of their own beside so many learners."""
        beside = max(self.beside_actors(learner_cores), learners - self.only_for_learners(learner_cores))
        return self.cores_for_actors - beside * learner_cores

    def fits_memory(self, learners: int, actors: int) -> bool:
        return self.memory.of(learners, actors) <= self.usable_memory

    @property
    def usable_memory(self) -> int:
        """Bytes that the run may plan with."""
        return int(self.host.memory_bytes * _MEMORY_SHARE)

    def within_bounds(self, learners: int, actors: int) -> bool:
        """Whether a free shape respects the job's elastic range."""
        return (self.least is None or (learners >= self.least.learners and actors >= self.least.actors)) and (
            self.most is None or (learners <= self.most.learners and actors <= self.most.actors)
        )


def make_problem(job: Job, env: EnvSpec, facts: HostFacts, measured: MeasureReport | None) -> Problem:
    """State the problem of placing `job` on one host; SizesError where the job's sizes contradict each other."""
    host = host_problem(facts)
    return problem_of(job, env, host, None if measured is None else rates_of(measured))


def host_problem(facts: HostFacts) -> HostProblem:
    """What one host has."""
    return HostProblem(
        name=facts.name,
        cores=facts.cpu.usable_cores,
        capacity=min(facts.cpu.capacity, float(len(facts.cpu.usable))),
        memory_bytes=facts.memory.limit_bytes,
    )


def problem_of(job: Job, env: EnvSpec, host: HostProblem, rates: Rates | None, pools: tuple[Pool, ...] = ()) -> Problem:
    """The same for what is known of a host, or of several taken together."""
    wanted = job.distributed
    learners = wanted.learners if isinstance(wanted.learners, int) else None
    actors = wanted.actors if isinstance(wanted.actors, int) else None
    # Sizes grow with the counts: those of an absurd request would make even the nearest sensible shape look too large.
    most = len(host.cores) * MOST_PER_CORE
    shape = Shape(min(learners or 1, most), min(max(actors or 1, learners or 1), most))
    fixed = learners is not None and actors is not None
    return Problem(
        host=host,
        learners=learners,
        actors=actors,
        learner_cores=wanted.learner_cores if isinstance(wanted.learner_cores, int) else None,
        least=None if fixed or job.elastic.min is None else Shape.parse(job.elastic.min),
        most=None if fixed or job.elastic.max is None else Shape.parse(job.elastic.max),
        oversubscribe=wanted.oversubscribe,
        evaluator=job.evaluation.enabled,
        trained_per_step=trained_per_step(job),
        turns=job.training.dependencies is not Dependencies.RELAXED,
        memory=memory_needs(env, resolve_sizes(job, shape, env), on_policy=job.on_policy),
        rates=rates,
        pools=pools,
    )


def trained_per_step(job: Job) -> float:
    """Samples trained on per environment step."""
    return job.algorithm.samples_per_insert if isinstance(job.algorithm, DqnConfig) else 1.0


def rates_of(measured: MeasureReport) -> Rates:
    """Planner's rates from a node's report: the actor as disturbed as it was measured, the medians elsewhere."""
    actor = max(measured.actors, key=lambda rate: rate.busy_neighbours)
    return Rates(
        actor_steps_per_s=actor.steps_per_s.median,
        learner_samples_per_s=tuple((rate.cores, rate.samples_per_s.median) for rate in measured.learners),
        buffer_s_per_step=measured.buffer_s_per_fragment.median / measured.fragment_samples,
    )


def memory_needs(env: EnvSpec, sizes: Sizes, *, on_policy: bool) -> MemoryNeeds:
    """Rough upper estimates: interpreter and libraries of each process, plus its rings, batches and replay memory."""
    sample = 2 * 4 * env.observation_size + 40
    batches = sizes.batch_slots * sizes.batch_size * sample
    replay = 0 if on_policy else sizes.buffer_size * sample
    return MemoryNeeds(
        actor=64 * _MIB + sizes.ring_slots * sizes.fragment_samples * sample,
        learner=(160 + 64) * _MIB + batches + replay,
        once=300 * _MIB,
    )
