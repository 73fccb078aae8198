"""From job, environment and facts to the problem in numbers. Pure."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from runtime.contract.drafting import MOST_PER_CORE
from runtime.contract.forecast import bytes_per_step, trained_per_step
from runtime.contract.shape import Shape
from runtime.contract.sizes import SizesError, resolve_sizes
from runtime.contract.sizings import Sizing, opened, sized, sizings
from runtime.contract.states import Dependencies
from tianjictl.planning.node import Node
from tianjictl.planning.problem import Choice, MemoryNeeds, OpenedChoices, Problem
from tianjictl.planning.room import fits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
    from runtime.contract.plan import HostPlan, Sizes
    from runtime.contract.rates import HostRates
    from tianjictl.profiling.facts.host import HostFacts

    NodesAt = Callable[[Sizes], Sequence[Node]]

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


def state(job: Job, env: EnvSpec, nodes: Sequence[Node], nodes_at: NodesAt | None = None) -> Problem:
    """The problem of placing `job` on nodes, the head first; SizesError where the job's sizes contradict each other.

    `nodes_at` tells how fast the same nodes are with other sizes than those that they were measured with; without it
    there are no others to choose. Where an automatic buffer is larger than memory allows, the largest that fits takes
    the place of the usual one.
    """
    problem = _stated(job, env, nodes)
    if nodes_at is not None:
        shape = _smallest(job, nodes)
        others = sizings(job, shape, env)[1:]
        problem = replace(
            problem,
            choices=tuple(_choices(job, others, shape, env, nodes_at)),
            opened=tuple(_opened(job, shape, env, nodes_at)),
        )
    if isinstance(job.distributed.buffer_size, int) or fits(problem) or not fits(_without_memory_limit(problem)):
        return problem
    return _held_by_memory(problem, job, env, nodes_at)


def _held_by_memory(problem: Problem, job: Job, env: EnvSpec, nodes_at: NodesAt | None) -> Problem:
    """With the largest buffer that fits; as it is where none does."""
    low, high = 0, _sizes(job, env, problem.nodes).buffer_size  # the first does not fit, nor does the last
    best = problem
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        tried = _with_buffer(problem, job, env, middle, nodes_at)
        if tried is not None and fits(tried):
            low, best = middle, tried
        elif tried is None:
            low = middle
        else:
            high = middle
    return best


def _choices(job: Job, others: Iterable[Sizing], shape: Shape, env: EnvSpec, nodes_at: NodesAt) -> Iterator[Choice]:
    """What each sizing needs, and how fast the nodes are with it."""
    known: dict[tuple[int, int], tuple[HostRates | None, ...]] = {}
    for sizing in others:
        sizes = resolve_sizes(sized(job, sizing), shape, env)
        cost = sizes.num_envs, sizes.batch_size  # a buffer's size costs memory and no time
        if cost not in known:
            known[cost] = tuple(node.rates for node in nodes_at(sizes))
        yield Choice(sizing, memory_needs(env, sizes, on_policy=job.on_policy), known[cost], sizes)


def _opened(job: Job, shape: Shape, env: EnvSpec, nodes_at: NodesAt) -> Iterator[OpenedChoices]:
    for each in opened(job):
        there = sizings(each.job, shape, env)
        yield OpenedChoices(each.key, each.value, tuple(_choices(each.job, there, shape, env, nodes_at)))


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
    return resolve_sizes(job, _smallest(job, nodes), env)


def _smallest(job: Job, nodes: Sequence[Node]) -> Shape:
    """The smallest shape that the job allows.

    Sizes grow with the counts: those of an absurd request would make even the nearest sensible shape look too large.
    """
    most = max(1, sum(len(node.cores) for node in nodes)) * MOST_PER_CORE
    learners, actors = (
        count if isinstance(count, int) else 1 for count in (job.distributed.learners, job.distributed.actors)
    )
    return Shape(min(learners, most), min(max(actors, learners), most))


def _with_buffer(problem: Problem, job: Job, env: EnvSpec, size: int, nodes_at: NodesAt | None) -> Problem | None:
    """None where the buffer is smaller than batches and P allow."""
    sizing = Sizing(buffer_size=size)
    try:
        sizes = _sizes(sized(job, sizing), env, problem.nodes)
    except SizesError:
        return None
    return replace(
        problem,
        nodes=problem.nodes if nodes_at is None else tuple(nodes_at(sizes)),
        memory=memory_needs(env, sizes, on_policy=job.on_policy),
        sizing=sizing,
        usual=problem,
    )


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
