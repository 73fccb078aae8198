"""What holds a plan back and could be taken away: each is taken away, to see what the plan would gain. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.contract.drafting import MOST_PER_CORE
from runtime.contract.sizes import SizesError, resolve_sizes
from runtime.contract.sizings import USUAL, admitted
from runtime.contract.states import Role
from tianjictl.planning.cause import Cause, Named, gib, plural, time_of
from tianjictl.planning.decide import WORTH
from tianjictl.planning.inherent import WAITS, step_words, waiting, where_sent
from tianjictl.planning.marginal import memory_is_tight, relaxed_requests
from tianjictl.planning.room import fits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.contract.plan import Plan
    from tianjictl.planning.problem import Problem
    from tianjictl.planning.relaxing import Case, Outcome

_WORTH_TRYING = 0.05  #: of what fewer actors reach
_PLENTY = 1 << 50  #: bytes
BOUNDS_OF_P = ("training.staleness_tolerance", "distributed.buffer_size")


def removable(case: Case) -> Iterator[Named]:
    if (simulator := _simulator(case)) is not None:
        yield simulator
    yield from _network(case)
    yield from _memory(case)
    yield from _sizes(case)
    for _, limit, problem in relaxed_requests(case.problem):
        outcome = case.decided(problem)
        if outcome is not None:
            yield _of_request(case, limit, outcome)


def _of_request(case: Case, limit: str, outcome: Outcome) -> Named:
    gain, shape = case.gain(outcome.samples_per_s), case.plan.shape
    used = f"{case.solution.cores} of {case.problem.num_cores} cores"
    would = f"{outcome.shape} would reach {outcome.samples_per_s:,.0f} samples/s ({gain:+.0%})"
    if limit == "elastic.max":
        most = case.problem.most
        return Named(Cause.ELASTIC, gain, f"the elastic range: {shape} is all that elastic.max {most} allows; {would}")
    if limit == "learner_cores":
        cores = case.solution.learner_cores
        asked = f"the cores of a learner: {cores} were asked for, and {shape} takes {used}"
        return Named(Cause.LEARNER_CORES, gain, f"{asked}; with {outcome.learner_cores} each, {would}")
    return Named(Cause.SHAPE, gain, f"the shape asked for: {shape} takes {used}; {would}")


def _simulator(case: Case) -> Named | None:
    """Actors that mostly wait leave their cores to others: more of them on the same cores gain."""
    waits = waiting(case)
    if waits < WAITS:
        return None
    actors, learners = case.solution.shape.actors, case.solution.shape.learners
    best, times = case.samples_per_s, 1
    for more in (2, 4, 8, 16):
        if more * actors > case.problem.num_cores * MOST_PER_CORE or not _room_for(case, more):
            break
        reached = case.with_actors_doubled(more)
        if reached > best * (1 + _WORTH_TRYING):
            best, times = reached, more
    gain = case.gain(best)
    sentence = f"the simulator: {step_words(case)}"
    if times > 1:
        sentence += (
            f"; more actors on the same cores would help: --shape L{learners}A{times * actors} --oversubscribe "
            f"reaches about {best:,.0f} samples/s ({gain:+.0%})"
        )
    return Named(Cause.SIMULATOR, gain, sentence)


def _room_for(case: Case, times: int) -> bool:
    memory = case.problem.memory
    return all(
        memory.of(counts.learners, counts.actors * times) <= node.usable_memory
        for counts, node in zip(case.solution.nodes, case.problem.nodes, strict=True)
    )


def _network(case: Case) -> Iterator[Named]:
    """Without limits of the network, where the components are and with them elsewhere."""
    problem = case.problem
    if all(node.mb_per_s is None for node in problem.nodes) or len(problem.nodes) == 1:
        return
    free = replace(problem, nodes=tuple(replace(node, mb_per_s=None) for node in problem.nodes))
    outcome = case.decided(free)
    reached = max(
        case.with_hosts(lambda host: host.model_copy(update={"mb_per_s": None})),
        0.0 if outcome is None else outcome.samples_per_s,
    )
    gain = case.gain(reached)
    slowest = min((node for node in problem.nodes if node.mb_per_s is not None), key=lambda node: node.mb_per_s or 0.0)
    yield Named(
        Cause.NETWORK,
        gain,
        f"the network: {where_sent(case, slowest.name, slowest.mb_per_s or 0.0)}{_without(reached, gain)}",
    )


def _memory(case: Case) -> Iterator[Named]:
    """Without limits of memory."""
    problem = case.problem
    tight = [index for index in range(len(problem.nodes)) if memory_is_tight(case, index)]
    if not tight:
        return
    outcomes = [case.decided(_without_memory_limit(problem))]
    if problem.usual is not None:
        outcomes.append(case.as_stated(_without_memory_limit(problem.usual)))
    outcome = max((each for each in outcomes if each is not None), key=lambda each: each.samples_per_s, default=None)
    if outcome is None:
        return
    index = tight[0]
    node, counts, needs = problem.nodes[index], case.solution.nodes[index], problem.memory
    whose = "their buffers" if counts.learners > 1 else "its buffer"
    parts = {
        f"{counts.learners} learner{plural(counts.learners)} with {whose}": counts.learners * needs.learner,
        f"{counts.actors} actor{plural(counts.actors)}": counts.actors * needs.actor,
        "the run's programs themselves": needs.once,
    }
    fills = max(parts, key=lambda part: parts[part])
    free_cores = len(node.cores) - counts.learners * case.solution.learner_cores - counts.actors
    empty = (
        f", and {free_cores} core{plural(free_cores)} stay{'s' if free_cores == 1 else ''} empty" if free_cores else ""
    )
    gain = case.gain(outcome.samples_per_s)
    empty += _smaller_buffer(case)
    sentence = (
        f"the memory of {node.name}: {gib(needs.of(counts.learners, counts.actors))} of {gib(node.usable_memory)} that "
        f"may be used are taken, {gib(parts[fills])} by {fills}{empty}{_without(outcome.samples_per_s, gain)}"
    )
    yield Named(Cause.MEMORY, gain, sentence)


def _without_memory_limit(problem: Problem) -> Problem:
    return replace(problem, nodes=tuple(replace(node, memory_bytes=_PLENTY) for node in problem.nodes))


def held_buffer(case: Case) -> Named | None:
    """A buffer that is smaller than usual for want of memory, where that costs no speed."""
    smaller = _smaller_buffer(case)
    usual = case.problem.usual
    if not smaller or usual is None or fits(usual):
        return None
    return Named(Cause.MEMORY, 0.0, f"the memory: what there is of it is taken{smaller}")


def _smaller_buffer(case: Case) -> str:
    usual = admitted(case.plan.job, USUAL, case.plan.learners_and_actors, case.plan.env)
    has = case.plan.sizes.buffer_size
    if usual is None or case.plan.job.on_policy or has >= usual.buffer_size:
        return ""
    return f", and buffers hold {has:,} samples instead of {usual.buffer_size:,}"


def _sizes(case: Case) -> Iterator[Named]:
    """Numbers of the job, where the sizes that they keep from being chosen are worth it."""
    for opening in case.openings:
        gain = case.gain(opening.outcome.samples_per_s)
        if gain < WORTH - 1.0:
            continue
        would = f"{opening.outcome.shape} would reach {opening.outcome.samples_per_s:,.0f} samples/s ({gain:+.0%})"
        has, could = case.plan.sizes, opening.sizes
        if opening.key in BOUNDS_OF_P and could.batch_size > has.batch_size:
            sentence = f"{_by_p(case, could.batch_size)}; with that {would}: raise one of the two"
            yield Named(Cause.STALENESS, gain, sentence)
        else:
            told = f"{could.num_envs:,} environments per actor, batches of {could.batch_size:,}"
            asked = f"{opening.key}: {opening.value:g} was asked for"
            yield Named(Cause.SIZES, gain, f"{asked}; with {told} and buffers of {could.buffer_size:,}, {would}")


def _by_p(case: Case, held: int) -> str:
    sizes = case.plan.sizes
    return (
        f"P: staleness_tolerance {sizes.staleness_tolerance:g} × buffer_size {sizes.buffer_size:,} holds the batch at "
        f"{sizes.batch_size:,} samples (it would be {held:,})"
    )


def _without(reached: float, gain: float) -> str:
    return f"; without that limit about {reached:,.0f} samples/s ({gain:+.0%})"


def staleness(case: Case) -> Named | None:
    """The batch that P allows, where it would be larger without and nobody has measured what that would give."""
    sizes, held = case.plan.sizes, unbound_batch(case.plan)
    if held is None or held <= sizes.batch_size:
        return None
    took = sizes.batch_size / learner_rate(case)
    sentence = (
        f"{_by_p(case, held)}; an update takes {time_of(took)} at that size, and more samples in each would cost less "
        "each: raise one of the two"
    )
    return Named(Cause.STALENESS, 0.0, sentence)


def unbound_batch(plan: Plan) -> int | None:
    """The batch of the same job with its buffer and tolerance left to be chosen; None where it is given by the job."""
    job = plan.job
    if isinstance(job.training.batch_size, int):
        return None
    training = job.training.model_copy(update={"staleness_tolerance": "auto"})
    distributed = job.distributed.model_copy(update={"buffer_size": "auto"})
    free = job.model_copy(update={"training": training, "distributed": distributed})
    try:
        return resolve_sizes(free, plan.learners_and_actors, plan.env).batch_size
    except SizesError:
        return None


def learner_rate(case: Case) -> float:
    """Samples per second of one learner on its cores, where the first one is."""
    (first, *_) = case.plan.of_role(Role.LEARNER)
    return case.rates[first.host].learner_on(first.threads).samples_per_s
