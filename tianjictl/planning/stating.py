"""From job, environment and facts to the problem in numbers. Pure."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from runtime.contract.drafting import MOST_PER_CORE
from runtime.contract.forecast import bytes_per_step, trained_per_step
from runtime.contract.shape import Shape
from runtime.contract.sizes import SizesError, resolve_sizes
from runtime.contract.states import Dependencies
from tianjictl.planning.node import Node
from tianjictl.planning.problem import MemoryNeeds, Problem
from tianjictl.planning.room import fits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
    from runtime.contract.plan import HostPlan, Sizes
    from runtime.contract.rates import HostRates
    from tianjictl.profiling.facts.host import HostFacts

_MIB = 1 << 20
_LIKE = 0.15  #: rates that differ by less than this part from the median of their kind are taken to be the median


def node_of(facts: HostFacts, rates: HostRates | None = None, told: HostPlan | None = None) -> Node:
    """What one host has, with what the inventory says of it."""
    node = Node(
        name=facts.name,
        cores=facts.cpu.usable_cores,
        capacity=min(facts.cpu.capacity, float(len(facts.cpu.usable))),
        memory_bytes=facts.memory.limit_bytes,
        rates=rates,
    )
    if told is None:
        return node
    return replace(node, name=told.name, roles=told.roles, mb_per_s=told.mb_per_s, wan=told.wan)


def state(job: Job, env: EnvSpec, nodes: Sequence[Node]) -> Problem:
    """The problem of placing `job` on nodes, the head first; SizesError where the job's sizes contradict each other.

    Where an automatic buffer is larger than memory allows, the largest that fits is planned with.
    """
    problem = _stated(job, env, nodes)
    if isinstance(job.distributed.buffer_size, int) or fits(problem) or not fits(_without_memory_limit(problem)):
        return problem
    low, high = 0, _sizes(job, env, nodes).buffer_size  # the first does not fit, nor does the last
    best = problem
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        tried = _with_buffer(job, env, nodes, middle)
        if tried is not None and fits(tried):
            low, best = middle, tried
        elif tried is None:
            low = middle
        else:
            high = middle
    return best


def smoothed(nodes: Sequence[Node], models: Sequence[str]) -> tuple[Node, ...]:
    """Nodes of one CPU model and one number of cores are alike: small differences are those of the measurement.

    A node that differs by more keeps its own rates.
    """
    kinds: dict[object, list[HostRates]] = {}
    for node, model in zip(nodes, models, strict=True):
        if node.rates is not None:
            kinds.setdefault(_kind(node, model), []).append(node.rates)
    typical = {kind: _median(rates) for kind, rates in kinds.items()}

    def settled(node: Node, model: str) -> Node:
        usual = typical.get(_kind(node, model))
        return node if usual is None or not _alike(node.rates, usual) else replace(node, rates=usual)

    return tuple(settled(node, model) for node, model in zip(nodes, models, strict=True))


def with_buffer(job: Job, buffer_size: int | None) -> Job:
    """The job whose sizes are meant: with an automatic buffer held down to what memory allows."""
    if buffer_size is None:
        return job
    return job.model_copy(update={"distributed": job.distributed.model_copy(update={"buffer_size": buffer_size})})


def memory_needs(env: EnvSpec, sizes: Sizes, *, on_policy: bool) -> MemoryNeeds:
    """Rough upper estimates: interpreter and libraries of each process, plus its rings, batches and replay memory."""
    sample = bytes_per_step(env)
    batches = sizes.batch_slots * sizes.batch_size * sample
    replay = 0 if on_policy else sizes.buffer_size * sample
    return MemoryNeeds(
        actor=64 * _MIB + sizes.ring_slots * sizes.fragment_samples * sample,
        learner=(160 + 64) * _MIB + batches + replay,
        once=300 * _MIB,
    )


def _stated(job: Job, env: EnvSpec, nodes: Sequence[Node]) -> Problem:
    wanted = job.distributed
    learners = wanted.learners if isinstance(wanted.learners, int) else None
    actors = wanted.actors if isinstance(wanted.actors, int) else None
    fixed = learners is not None and actors is not None
    return Problem(
        nodes=tuple(nodes),
        learners=learners,
        actors=actors,
        learner_cores=wanted.learner_cores if isinstance(wanted.learner_cores, int) else None,
        least=None if fixed or job.elastic.min is None else Shape.parse(job.elastic.min),
        most=None if fixed or job.elastic.max is None else Shape.parse(job.elastic.max),
        oversubscribe=wanted.oversubscribe,
        evaluator=job.evaluation.enabled,
        ratio=trained_per_step(job),
        turns=job.training.dependencies is not Dependencies.RELAXED,
        memory=memory_needs(env, _sizes(job, env, nodes), on_policy=job.on_policy),
        bytes_per_step=bytes_per_step(env),
    )


def _sizes(job: Job, env: EnvSpec, nodes: Sequence[Node]) -> Sizes:
    """Of the smallest shape that the job allows.

    Sizes grow with the counts: those of an absurd request would make even the nearest sensible shape look too large.
    """
    most = max(1, sum(len(node.cores) for node in nodes)) * MOST_PER_CORE
    learners, actors = (
        count if isinstance(count, int) else 1 for count in (job.distributed.learners, job.distributed.actors)
    )
    return resolve_sizes(job, Shape(min(learners, most), min(max(actors, learners), most)), env)


def _with_buffer(job: Job, env: EnvSpec, nodes: Sequence[Node], size: int) -> Problem | None:
    """None where the buffer is smaller than batches and P allow."""
    try:
        return replace(_stated(with_buffer(job, size), env, nodes), buffer_size=size)
    except SizesError:
        return None


def _without_memory_limit(problem: Problem) -> Problem:
    return replace(problem, memory=MemoryNeeds(actor=1, learner=1, once=0))


def _kind(node: Node, model: str) -> tuple[object, ...]:
    return model, len(node.cores), node.capacity, node.rates and tuple(speed.cores for speed in node.rates.learner)


def _median(rates: Sequence[HostRates]) -> HostRates:
    first = rates[0]
    speeds = [
        speed.model_copy(
            update={
                "samples_per_s": median(each.learner[index].samples_per_s for each in rates),
                "cpu_s_per_sample": median(each.learner[index].cpu_s_per_sample for each in rates),
            }
        )
        for index, speed in enumerate(first.learner)
    ]
    numbers = {name: median(getattr(each, name) for each in rates) for name in _NUMBERS}
    return first.model_copy(update={"learner": tuple(speeds), **numbers})


_NUMBERS = (
    "actor_steps_per_s",
    "actor_cpu_s_per_step",
    "buffer_cpu_s_per_step",
    "receive_s_per_step",
    "courier_cpu_s_per_step",
)


def _alike(rates: HostRates | None, usual: HostRates) -> bool:
    if rates is None:
        return False
    pairs = [(rates.actor_steps_per_s, usual.actor_steps_per_s)]
    pairs += [(a.samples_per_s, b.samples_per_s) for a, b in zip(rates.learner, usual.learner, strict=True)]
    return all(abs(mine - other) <= _LIKE * other for mine, other in pairs)
