"""The side that limits a plan where nothing could be taken away: who would have to be faster. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING

from runtime.contract.forecast import Side
from runtime.contract.states import Role
from tianjictl.planning.cause import Cause, Named, counted, mb, plural, time_of
from tianjictl.planning.links import links_of
from tianjictl.planning.relaxing import faster_actors, faster_learners

if TYPE_CHECKING:
    from tianjictl.planning.relaxing import Case

WAITS = 0.5  #: an actor that waits for more than this share of its time is held back by its simulator
_ALONE = 0.08  #: a side limits alone where a tenth more speed of it gives at least this


def inherent_cause(case: Case) -> Named:
    """The side that limits; the cores where neither does alone and all are taken."""
    expected, shape = case.expected, case.solution.shape
    numbers = f"alone, learners give {expected.learners_alone:,.0f}, actors {expected.actors_alone:,.0f} samples/s"
    actors, learners = counted("actor", shape.actors), counted("learner", shape.learners)
    side = expected.side
    if case.turns:
        return Named(Cause.TURNS, 0.0, f"{learners} and {actors} take turns, so their times add up ({numbers})")
    if side is Side.CORES:
        return _cores(case)
    if side is Side.RECEIVER:
        return Named(Cause.RECEIVER, 0.0, f"the buffers: they take no more than they get ({numbers})")
    if side is Side.NETWORK:
        ends = ((host.name, host.mb_per_s) for host in case.plan.hosts if host.mb_per_s is not None)
        return Named(Cause.NETWORK, 0.0, f"the network: {where_sent(case, *min(ends, key=lambda end: end[1]))}")
    both = _gains(case)
    unused = case.problem.num_cores - case.solution.cores
    if max(both) < _ALONE and unused <= case.solution.learner_cores:
        all_of = (
            f"all {case.problem.num_cores}" if unused <= 0 else f"{case.solution.cores} of {case.problem.num_cores}"
        )
        taken = f"{all_of} are taken by {learners} and {actors}"
        return Named(Cause.CORES, 0.0, f"the number of cores: {taken} ({numbers})")
    if both[0] > both[1]:
        waits = waiting(case) > WAITS
        word = f"the simulator: {step_words(case)}" if waits else f"the CPU time of {actors}"
        return Named(Cause.SIMULATOR if waits else Cause.ACTORS, 0.0, f"{word} ({numbers})")
    cores = case.solution.learner_cores
    each = f"{cores} core{plural(cores)}{' each' if shape.learners > 1 else ''}"
    return Named(Cause.LEARNER, 0.0, f"{learners} on {each} ({numbers})")


def _gains(case: Case) -> tuple[float, float]:
    """What a tenth more speed of the actors gives, and of the learners; of large plans what the other has to spare."""
    if case.small:
        actors, learners = (partial(faster, factor=1.1) for faster in (faster_actors, faster_learners))
        return case.gain(case.with_rates(actors)), case.gain(case.with_rates(learners))
    actors_slack = case.gain(case.expected.actors_alone)
    learners_slack = case.gain(case.expected.learners_alone)
    between = learners_slack - actors_slack
    return min(0.1, max(0.0, between)), min(0.1, max(0.0, -between))


def _cores(case: Case) -> Named:
    """Cores that several components share: who takes most of their time."""
    rates, plan = case.rates, case.plan
    steps, ratio = case.expected.env_steps_per_s, case.problem.ratio
    per_actor = steps / max(1, case.solution.shape.actors)
    spent: defaultdict[str, float] = defaultdict(float)
    for p in plan.placements:
        found = rates[p.host]
        if p.role is Role.ACTOR:
            spent["actors"] += per_actor * found.actor_cpu_s_per_step
        elif p.role is Role.BUFFER:
            spent["buffers"] += steps / case.solution.shape.learners * found.buffer_cpu_s_per_step
        elif p.role is Role.LEARNER and case.solution.shared:
            speed = found.learner_on(p.threads)
            spent["learners"] += steps / case.solution.shape.learners * ratio * speed.cpu_s_per_sample
    total = sum(spent.values())
    order = sorted(spent, key=lambda who: -spent[who])
    shares = ", ".join(f"{who} {spent[who] / total:.0%}" for who in order if spent[who] / total >= 0.01)
    most = order[0]
    cause = {"actors": Cause.ACTORS, "buffers": Cause.RECEIVER, "learners": Cause.LEARNER}[most]
    where = "the shared cores" if case.solution.shared else "the cores beside the learners"
    limited = [node for node in case.problem.nodes if node.capacity < len(node.cores)]
    quota = "".join(f"; a quota allows {n.capacity:g} of the {len(n.cores)} cores of {n.name}" for n in limited[:2])
    return Named(cause, 0.0, f"the CPU time of the {most}: {where} are busy, of their time {shares}{quota}")


def waiting(case: Case) -> float:
    """Share of an actor's time in which it does not compute, over all actors."""
    rates = case.rates
    hosts = Counter(p.host for p in case.plan.of_role(Role.ACTOR))
    shares = [
        count * max(0.0, 1.0 - rates[host].actor_steps_per_s * rates[host].actor_cpu_s_per_step)
        for host, count in hosts.items()
    ]
    return sum(shares) / hosts.total()


def step_words(case: Case) -> str:
    """`a step of 64 environments takes 2.3 ms, of which 0.1 ms is computing`, where the first actor is."""
    host = case.plan.of_role(Role.ACTOR)[0].host
    rates, envs = case.rates[host], case.plan.sizes.num_envs
    wall, cpu = envs / rates.actor_steps_per_s, envs * rates.actor_cpu_s_per_step
    each = "a step" if envs == 1 else f"a step of {envs} environments"
    return f"{each} takes {time_of(wall)}, of which {time_of(cpu)} is computing"


def where_sent(case: Case, slowest: str, mb_per_s: float) -> str:
    """The busiest way, what is sent there and what it carries; the slowest network where nothing is sent."""
    ways = [link for link in links_of(case.plan) if link.mb_per_s is not None and link.limit_mb_per_s]
    busiest = max(ways, key=lambda link: (link.mb_per_s or 0.0) / (link.limit_mb_per_s or 1.0), default=None)
    if busiest is None:
        return f"{slowest} carries {mb(mb_per_s)} MB/s, too little for actors on other nodes than their learners"
    sent, carries = busiest.mb_per_s or 0.0, busiest.limit_mb_per_s or 1.0
    used = "all of it" if sent > 0.98 * carries else f"{mb(sent)} MB/s of it"
    return f"{busiest.source} → {busiest.target} carries {mb(carries)} MB/s, {used} used by {busiest.carries}"
