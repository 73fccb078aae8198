"""Why the plan is as it is, in sentences with numbers: what binds, who idles, the critical path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.contract.forecast import Side, forecast
from runtime.contract.states import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.contract.forecast import Forecast
    from runtime.contract.plan import Plan
    from tianjictl.planning.problem import Problem
    from tianjictl.planning.solution import Solution

_BINDS = {
    Side.ACTORS: "the actors bind",
    Side.LEARNER: "the learners bind",
    Side.RECEIVER: "the buffers bind",
    Side.CORES: "core time binds",
    Side.NETWORK: "the network binds",
}


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """Formula (1): a round takes max(T_sp, N_A·T_rv), in seconds per fragment."""

    sample_s: float  #: T_sp, an actor's time for a fragment at its share of a core
    receive_s: float  #: T_rv, the buffer's time for a fragment
    actors: int  #: N_A, actors of the largest group

    @property
    def round_s(self) -> float:
        return max(self.sample_s, self.actors * self.receive_s)

    @property
    def hidden(self) -> bool:
        """Whether receiving is hidden behind sampling."""
        return self.actors * self.receive_s <= self.sample_s


def critical_path(plan: Plan) -> CriticalPath:
    """Formula (1) for the first group of a measured plan, which is one of the largest."""
    actor = next(p for p in plan.of_role(Role.ACTOR) if p.group == 0)
    samples = plan.sizes.fragment_samples
    return CriticalPath(
        sample_s=samples / (plan.rates[actor.host].actor_steps_per_s * min(1.0, actor.core_share)),
        receive_s=samples * plan.rates[plan.home(0)].receive_s_per_step,
        actors=len(plan.group_of(0, Role.ACTOR)),
    )


def explain(problem: Problem, solution: Solution, plan: Plan) -> tuple[str, ...]:
    """Sentences for a person, the most important first; without measured rates only what is shared."""
    sharing = tuple(_sharing_lines(plan)) if solution.shared else ()
    reached = forecast(plan, plan.rates) if plan.rates else None
    if reached is None:
        return sharing
    path = critical_path(plan)
    verdict = "receiving is hidden behind sampling" if path.hidden else "the receiver is the critical path"
    return (
        _binding_line(problem, reached),
        *sharing,
        _idle_line(reached),
        f"critical path: T_round = max(T_sp, N_A·T_rv) = max({_ms(path.sample_s)}, {path.actors} × "
        f"{_ms(path.receive_s)}) = {_ms(path.round_s)} per fragment of {plan.sizes.fragment_samples}: {verdict}",
    )


def _binding_line(problem: Problem, reached: Forecast) -> str:
    numbers = f"learners {reached.learners_alone:,.0f}, actors {reached.actors_alone:,.0f} samples/s"
    words = "actors and learners take turns, so their times add up" if problem.turns else _BINDS[reached.side]
    return f"{words}: {reached.samples_per_s:,.0f} samples/s ({numbers})"


def _sharing_lines(plan: Plan) -> Iterator[str]:
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


def _idle_line(reached: Forecast) -> str:
    busy = {
        "learner": max(group.learner_busy for group in reached.groups),
        "actor": max(group.actors_busy for group in reached.groups),
        "buffer": max(group.receiver_busy for group in reached.groups),
    }
    return "idle: " + ", ".join(f"{role} {max(0.0, 1.0 - share):.0%}" for role, share in busy.items())


def _ms(value: float) -> str:
    return f"{value * 1e3:.3g} ms"
