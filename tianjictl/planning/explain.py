"""Why the plan is as it is, in sentences with numbers: what binds, who idles, the critical path, what comes next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime.contract.plan import Prediction, Sizes
from tianjictl.planning.choice import (
    Choice,
    Throughput,
    fits,
    is_oversubscribed,
    oversubscription,
    sharing_of,
    throughput,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tianjictl.planning.problem import Problem, Rates

_ALIKE = 0.01  #: limits within one percent of the smallest bind together


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


def predict(problem: Problem, choice: Choice, sizes: Sizes) -> Prediction:
    """Rates the run should reach and why; without measured rates only the words."""
    if problem.rates is None:
        return Prediction(explanation=tuple(_sharing_lines(problem, choice)))
    limits = throughput(problem, choice, problem.rates)
    return Prediction(
        env_steps_per_s=_rounded(limits.achieved / problem.trained_per_step),
        samples_per_s=_rounded(limits.achieved),
        updates_per_s=_rounded(limits.achieved / sizes.batch_size),
        bottleneck=bottleneck(problem, limits),
        explanation=explain(problem, choice, sizes, limits, problem.rates),
    )


def bottleneck(problem: Problem, limits: Throughput) -> str:
    """Which side binds: `turns`, `receiver`, `learner`, `actors`, or `balanced` where two are alike."""
    if problem.turns:
        return "turns"
    by_side = {"learner": limits.learners, "actors": limits.actors, "receiver": limits.receivers}
    binding = [side for side, limit in by_side.items() if limit <= limits.achieved * (1 + _ALIKE)]
    return binding[0] if len(binding) == 1 else "balanced"


def critical_path(problem: Problem, choice: Choice, sizes: Sizes, rates: Rates) -> CriticalPath:
    """Formula (1) for the largest group of the plan."""
    share = sharing_of(problem, choice).factor
    return CriticalPath(
        sample_s=sizes.fragment_samples / (rates.actor_steps_per_s * share),
        receive_s=sizes.fragment_samples * rates.buffer_s_per_step,
        actors=choice.shape.actors_of_group(0),
    )


def explain(problem: Problem, choice: Choice, sizes: Sizes, limits: Throughput, rates: Rates) -> tuple[str, ...]:
    """Sentences for a person, the most important first."""
    lines = [_binding_line(problem, limits)]
    lines += _sharing_lines(problem, choice)
    lines.append(_idle_line(problem, choice, limits, rates))
    path = critical_path(problem, choice, sizes, rates)
    verdict = "receiving is hidden behind sampling" if path.hidden else "the receiver is the critical path"
    lines.append(
        f"critical path: T_round = max(T_sp, N_A·T_rv) = max({_ms(path.sample_s)}, {path.actors} × "
        f"{_ms(path.receive_s)}) = {_ms(path.round_s)} per fragment of {sizes.fragment_samples}: {verdict}"
    )
    if (other := next_best(problem, choice, rates)) is not None:
        gain = throughput(problem, other, rates).achieved / limits.achieved - 1.0
        cores = f"{other.cores} cores" if other.learner_cores == 1 else f"{other.learner_cores} cores per learner"
        shared = ", shared" if is_oversubscribed(problem, other) else ""
        lines.append(f"next best shape: {other.shape} ({cores}{shared}), {gain:+.0%}")
    return tuple(lines)


def next_best(problem: Problem, choice: Choice, rates: Rates) -> Choice | None:
    """The best neighbour of the choice that fits, as if the counts had been free; None if there is none."""
    free = replace(problem, learners=None, actors=None)
    around = [other for other in _around(problem, choice) if fits(free, other)]
    return max(
        around, key=lambda other: (throughput(free, other, rates).achieved, -other.cores, -other.learners), default=None
    )


def _around(problem: Problem, choice: Choice) -> Iterator[Choice]:
    for cores in problem.learner_core_choices():
        for learners in range(max(1, choice.learners - 1), choice.learners + 2):
            for actors in range(max(1, choice.actors - 2), choice.actors + 3):
                other = Choice(learners, cores, actors)
                if other.shape != choice.shape:
                    yield other


def _binding_line(problem: Problem, limits: Throughput) -> str:
    numbers = f"learners {limits.learners:,.0f}, actors {limits.actors:,.0f} samples/s"
    side = bottleneck(problem, limits)
    if side == "turns":
        return f"actors and learners take turns, so their times add up: {limits.achieved:,.0f} samples/s ({numbers})"
    if side == "balanced":
        return f"actors and learners are balanced: {limits.achieved:,.0f} samples/s ({numbers})"
    word = {"learner": "the learners bind", "actors": "the actors bind", "receiver": "the buffers bind"}[side]
    return f"{word}: {limits.achieved:,.0f} samples/s ({numbers})"


def _sharing_lines(problem: Problem, choice: Choice) -> list[str]:
    over = oversubscription(problem, choice)
    sharing = sharing_of(problem, choice)
    if over == 0.0:
        return []
    who = "actors, buffers and agent share" if sharing.exclusive else "learners, actors, buffers and agent share"
    return [
        f"oversubscribed {over:.2f}×: {who} {sharing.cores:g} core{'s' if sharing.cores != 1 else ''} evenly, "
        f"{sharing.factor:.2f} of a core for each actor"
    ]


def _idle_line(problem: Problem, choice: Choice, limits: Throughput, rates: Rates) -> str:
    steps = limits.achieved / problem.trained_per_step
    busy = {
        "learner": limits.achieved / limits.learners,
        "actor": limits.achieved / limits.actors,
        "buffer": steps * rates.buffer_s_per_step / choice.learners,
    }
    return "idle: " + ", ".join(f"{role} {max(0.0, 1.0 - share):.0%}" for role, share in busy.items())


def _rounded(value: float) -> float:
    """Six significant digits: rates are not known better, and bytes stay stable across platforms."""
    return float(f"{value:.6g}")


def _ms(value: float) -> str:
    return f"{value * 1e3:.3g} ms"
