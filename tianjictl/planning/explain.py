"""Why a plan is as it is, as numbers and sentences: what binds, what more would be worth, who idles, what comes next.

Pure. `brief` is for every plan and is kept in it; `explain` is for who asks, and decides again a dozen times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from runtime.contract.forecast import Side
from runtime.contract.model import Document
from runtime.contract.states import Role
from tianjictl.planning.binding import causes
from tianjictl.planning.cause import time_of
from tianjictl.planning.crowding import crowded
from tianjictl.planning.marginal import Marginal, marginals
from tianjictl.planning.relaxing import Case

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runtime.contract.forecast import GroupForecast
    from runtime.contract.plan import Placement, Plan
    from tianjictl.planning.problem import Problem
    from tianjictl.planning.relaxing import Outcome
    from tianjictl.planning.solution import Solution


WHAT_BINDS = "what binds is"


class Bind(Document):
    """One thing that binds."""

    cause: str  #: a `Cause`
    gain: float  #: without it; 0 where that is not known
    sentence: str


class CriticalPath(Document):
    """Formula (1) of the group where receiving is nearest to being seen: a round takes max(T_sp, N_A·T_rv)."""

    group: int
    fragment_samples: int
    sample_s: float  #: T_sp, an actor's time for a fragment
    receive_s: float  #: T_rv, the buffer's time for a fragment
    actors: int  #: N_A
    train_s: float  #: the learner's time for a fragment
    round_s: float
    hidden: bool  #: receiving is hidden behind sampling

    def __str__(self) -> str:
        verdict = "receiving is hidden behind sampling" if self.hidden else "receiving is the critical path"
        return (
            f"T_round = max(T_sp, N_A·T_rv) = max({time_of(self.sample_s)}, {self.actors} × {time_of(self.receive_s)})"
            f" = {time_of(self.round_s)} per fragment of {self.fragment_samples:,}: {verdict}; "
            f"the learner needs {self.actors} × {time_of(self.train_s)} for what a round brings"
        )


class NextBest(Document):
    """Another shape, as if the counts had been free: the best neighbour, or the best of some that share cores."""

    shape: str
    learner_cores: int
    cores: int
    samples_per_s: float
    gain: float  #: mostly a loss: -0.03 is 3 % less
    shared: bool


class Proof(Document):
    """How sure it is that nothing is better."""

    words: str
    gap: float  #: nothing can be better by more than this part


class Explanation(Document):
    """All of it. Without measurements only what binds by count, and the proof."""

    bottleneck: str | None = None  #: a `Cause`
    binds: tuple[Bind, ...] = ()
    marginal: tuple[Marginal, ...] = ()
    idle: dict[str, float] = Field(
        default_factory=dict
    )  #: share of its time in which a role waits; `cores`: of the core time there is
    critical_path: CriticalPath | None = None
    next_best: NextBest | None = None
    crowded: NextBest | None = None  #: the best of some that would share cores, where they gain by it
    proof: Proof


def brief(problem: Problem, solution: Solution, plan: Plan) -> tuple[str, ...]:
    """What binds, and how cores are shared: the sentences that a plan keeps."""
    case = Case.of(problem, solution, plan)
    found = [] if case is None else [f"{WHAT_BINDS} {causes(case)[0].sentence}"]
    return (*found, *sharing(plan))


def sharing(plan: Plan) -> Iterator[str]:
    """One sentence for each host that is oversubscribed."""
    for host in plan.hosts:
        if host.oversubscription == 0.0:
            continue
        placed = plan.on(host.name)
        learners = [p for p in placed if p.role is Role.LEARNER]
        own = all(p.core_share >= p.threads for p in learners)
        who = "actors, buffers and agent share" if own and learners else "learners, actors, buffers and agent share"
        cores = (host.capacity or len(host.cores)) - (sum(p.threads for p in learners) if own else 0)
        each = min((p.core_share for p in placed if p.role is Role.ACTOR), default=None)
        actor = "" if each is None else f", {each:.2f} of a core for each actor"
        where = "" if len(plan.hosts) == 1 else f"{host.name} "
        yield (
            f"{where}oversubscribed {host.oversubscription:.2f}×: {who} {cores:g} core{'s' if cores != 1 else ''} "
            f"evenly{actor}"
        )


def explain(problem: Problem, solution: Solution, plan: Plan) -> Explanation:
    """The whole of it."""
    gap = solution.bound / solution.value - 1.0 if solution.value > 0 else 0.0
    proof = Proof(words=solution.proof, gap=round(max(0.0, gap), 6))
    case = Case.of(problem, solution, plan)
    if case is None:
        return Explanation(proof=proof)
    found = causes(case)
    return Explanation(
        bottleneck=found[0].cause,
        binds=tuple(Bind(cause=each.cause, gain=round(each.gain, 4), sentence=each.sentence) for each in found),
        marginal=marginals(case),
        idle=idle(case),
        critical_path=critical_path(case),
        next_best=next_best(case),
        crowded=_told(case, crowded(case, found[0].cause)),
        proof=proof,
    )


def idle(case: Case) -> dict[str, float]:
    """By role, of all groups together; `cores`: what nobody is placed on.

    An actor that would go on if it had a core is not idle: `actor_short_of_cores` is that share of its time.
    """
    groups = case.expected.groups
    steps = sum(group.env_steps_per_s for group in groups) or 1.0
    scale = case.expected.env_steps_per_s / steps  # less where they take turns
    short = [1.0 - group.actors_busy if short_of_cores(group) else 0.0 for group in groups]
    acting = [group.actors_busy * scale for group in groups]

    def mean(values: Iterable[float]) -> float:
        return round(max(0.0, sum(values) / len(groups)), 4)

    found = {
        "learner": mean(1.0 - scale * group.learner_busy for group in groups),
        "actor": mean(1.0 - busy - want for busy, want in zip(acting, short, strict=True)),
        "buffer": mean(1.0 - scale * group.receiver_busy for group in groups),
        "cores": round(max(0.0, 1.0 - case.solution.cores / case.problem.num_cores), 4),
    }
    return {**found, "actor_short_of_cores": mean(short)} if any(short) else found


def short_of_cores(group: GroupForecast) -> bool:
    """Whether core time is what the most of a group's actors lack."""
    return bool(group.held_by) and group.held_by[0].side is Side.CORES


def critical_path(case: Case) -> CriticalPath:
    """Of the group whose receiving is the largest part of its round."""
    actors: dict[int, list[str]] = {}
    learners = {p.group: p for p in case.plan.of_role(Role.LEARNER)}
    for p in case.plan.of_role(Role.ACTOR):
        actors.setdefault(p.group, []).append(p.host)
    groups = case.expected.groups
    paths = [_path(case, group, learners[group.group], actors[group.group]) for group in groups]
    return max(paths, key=lambda path: (path.actors * path.receive_s / path.sample_s, -path.group))


def _path(case: Case, group: GroupForecast, learner: Placement, hosts: Sequence[str]) -> CriticalPath:
    """`hosts`: of each of its actors."""
    rates, fragment = case.rates, case.plan.sizes.fragment_samples
    pace = sum(rates[host].actor_steps_per_s for host in hosts) / len(hosts)
    if short_of_cores(group):
        pace = group.env_steps_per_s / len(hosts)  # what its share of the cores allows
    trained = rates[learner.host].learner_on(learner.threads).samples_per_s
    sample_s, receive_s = fragment / pace, fragment * rates[learner.host].receive_s_per_step
    return CriticalPath(
        group=group.group,
        fragment_samples=fragment,
        sample_s=sample_s,
        receive_s=receive_s,
        actors=len(hosts),
        train_s=fragment * case.problem.ratio / trained,
        round_s=max(sample_s, len(hosts) * receive_s),
        hidden=len(hosts) * receive_s <= sample_s,
    )


def next_best(case: Case) -> NextBest | None:
    """The best neighbour that fits, as if the counts had been free; None if there is none."""
    free = replace(case.problem, learners=None, actors=None)
    found = [outcome for shape in _around(case) if (outcome := _of_shape(case, free, *shape)) is not None]
    return _told(
        case, max(found, key=lambda other: (round(case.gain(other.samples_per_s), 3), -other.cores), default=None)
    )


def _told(case: Case, other: Outcome | None) -> NextBest | None:
    if other is None:
        return None
    return NextBest(
        shape=str(other.shape),
        learner_cores=other.learner_cores,
        cores=other.cores,
        samples_per_s=float(f"{other.samples_per_s:.6g}"),
        gain=round(case.gain(other.samples_per_s), 4),
        shared=other.shared,
    )


def _around(case: Case) -> Iterator[tuple[int, int]]:
    """Neighbours; few of a large plan, and some further ones on a single node, where each is found at once."""
    learners, actors = case.solution.shape
    steps = [(0, -1), (0, 1), (-1, 0)]
    if case.small:
        steps += [(1, 0), (-1, 1), (1, -1)]
    if len(case.problem.nodes) == 1:
        steps += [(0, -2), (0, 2), (-1, 2), (1, -2), (1, 1), (1, 2), (-1, -1), (-1, -2)]
    for more, others in steps:
        if learners + more >= 1:
            yield learners + more, actors + others


def _of_shape(case: Case, free: Problem, learners: int, actors: int) -> Outcome | None:
    if not free.allows(learners, actors):
        return None
    return case.decided(replace(free, learners=learners, actors=actors))
