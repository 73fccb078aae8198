"""When a run should have another shape, by what it measures of itself. Pure: rules, their bounds, and their patience.

| rule | speaks when, for `elastic.patience` on end | proposes |
|---|---|---|
| more learners | more than 0.3 of the samples are stale when they are used | one group more |
| more actors | learners are busy less than half the time; actors are the limit and never wait | half as many more |
| fewer actors | learners are busy all the time, and actors wait more than half of it | a quarter fewer |
| fewer learners | no more actors fit, though they are the limit, and one learner less has time enough | one fewer |
| better shape | none of the above, and by the costs that it measures another shape would be a tenth faster | that one |

Where costs are known, a proposal says what it is predicted to bring, and one that would bring too little is not made.
Growing stays within `elastic.max` and, where that is not given, within free cores; shrinking needs an `elastic.min`.
After any change of the plan nothing is proposed for `elastic.cool_down`, until the numbers tell of the new shape; the
reverse of what was done last waits four times as long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, inf
from typing import TYPE_CHECKING, NamedTuple

from runtime.contract.arrangement import can_hold, is_settled
from runtime.contract.shape import Shape
from runtime.contract.states import Dependencies, Role
from runtime.contract.view import Advice, mean_gauge
from runtime.control.gain import MOST_TO_SEARCH, better_shape, predicted_gain
from runtime.freshness.advice import FRESH_BELOW, STALE_ABOVE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runtime.contract.plan import Plan
    from runtime.contract.rates import HostRates
    from runtime.contract.view import RunView

LOOK_EVERY_S = 1.0  #: the numbers are means over a second
REVERSE_COOL_DOWNS = 4  #: before what was done last may be undone
SAY_AGAIN_S = 600.0  #: advice that nobody takes
_IDLE_BELOW = 0.5
_BUSY_ABOVE = 0.9
_ENOUGH_TIME = 0.6  #: busy share that the learners that stay may come to


class Rule(StrEnum):
    """Which rule speaks."""

    MORE_LEARNERS = "more-learners"
    MORE_ACTORS = "more-actors"
    FEWER_ACTORS = "fewer-actors"
    FEWER_LEARNERS = "fewer-learners"
    BETTER_SHAPE = "better-shape"


_REVERSE = {
    Rule.MORE_LEARNERS: Rule.FEWER_LEARNERS,
    Rule.FEWER_LEARNERS: Rule.MORE_LEARNERS,
    Rule.MORE_ACTORS: Rule.FEWER_ACTORS,
    Rule.FEWER_ACTORS: Rule.MORE_ACTORS,
    Rule.BETTER_SHAPE: Rule.BETTER_SHAPE,
}
_WORTH_IT = {Rule.MORE_LEARNERS: -0.05, Rule.MORE_ACTORS: 0.05, Rule.FEWER_ACTORS: -0.05, Rule.FEWER_LEARNERS: -0.05}


class Signals(NamedTuple):
    """What the rules look at; shares are 0 … 1, none where nothing was measured."""

    staleness: float
    learners_busy: float | None
    actors_busy: float | None  #: the rest of the time they wait for room in their rings, or for leave to go on
    limit: str  #: side of the critical path


class Proposal(NamedTuple):
    """Another shape, and why."""

    rule: Rule
    shape: Shape
    reason: str
    gain: float | None = None  #: predicted: 0.25 is a quarter more samples per second; none where costs are not known

    @property
    def why(self) -> str:
        """The reason, and what it is predicted to bring."""
        return self.reason if self.gain is None else f"{self.reason} (predicted: {self.gain:+.0%} samples/s)"

    def advice(self, run_id: str) -> str:
        """For an operator to read, with the command to type."""
        return f"{self.why}: {self.view(run_id).command}"

    def view(self, run_id: str) -> Advice:
        """The same for the view of the run."""
        command = f"tianjictl scale {run_id} {self.shape}"
        return Advice(shape=str(self.shape), reason=self.reason, gain=self.gain, command=command)


@dataclass(frozen=True, slots=True)
class Memory:
    """What was seen and proposed so far."""

    looked_at: float = -inf
    revision: int = 0
    changed_at: float = 0.0
    speaking: Rule | None = None
    since: float = 0.0
    last: Rule | None = None  #: the rule whose proposal was the last one made
    last_at: float = 0.0
    said: Proposal | None = None
    said_at: float = 0.0
    said_of: int = 0  #: the revision of the plan that it was said of

    def advice(self, plan: Plan) -> Proposal | None:
        """What was last proposed, while the plan is still the one that it was about."""
        return self.said if self.said_of == plan.revision else None


def signals_of(view: RunView) -> Signals:
    """The signals of a view: means over the components that work."""

    def busy(role: Role) -> float | None:
        return mean_gauge((c for c in view.components if c.role is role), "busy_share")

    return Signals(view.freshness.staleness_ratio, busy(Role.LEARNER), busy(Role.ACTOR), view.bottleneck.side)


def look(
    memory: Memory,
    signals: Signals,
    plan: Plan,
    *,
    now: float,
    away: frozenset[str] = frozenset(),
    costs: Mapping[str, HostRates] | None = None,
) -> tuple[Memory, Proposal | None]:
    """What follows from one more look at `signals`, at `now` (seconds, monotonic), perhaps with a proposal.

    `costs`: what components cost by host, as this run measures it. May be called as often as one likes; a change of
    the plan, whoever made it, is noticed by its revision.
    """
    if now - memory.looked_at < LOOK_EVERY_S:
        return memory, None
    memory = replace(memory, looked_at=now)
    if plan.revision != memory.revision:
        memory = replace(memory, revision=plan.revision, changed_at=now, speaking=None)
    if plan.job.training.dependencies is Dependencies.STRICT or not is_settled(plan) or away:
        return replace(memory, speaking=None), None
    settled = now - memory.changed_at >= plan.job.elastic.cool_down
    found = next(_worth_it(signals, plan, costs or {}, search=settled), None)
    rule = None if found is None else found.rule
    if rule is not memory.speaking:
        memory = replace(memory, speaking=rule, since=now)
    patience, cool_down = plan.job.elastic.patience, plan.job.elastic.cool_down
    if found is None or now - memory.since < patience or now - memory.changed_at < cool_down:
        return memory, None
    if memory.last is _REVERSE[found.rule] and now - memory.last_at < REVERSE_COOL_DOWNS * cool_down:
        return memory, None
    if _is_said(memory, found, now):
        return memory, None
    return replace(memory, said=found, said_at=now, said_of=plan.revision, last=found.rule, last_at=now), found


def _is_said(memory: Memory, found: Proposal, now: float) -> bool:
    """The same advice once more would only fill the log."""
    said = memory.said
    same = said is not None and (said.rule, said.shape) == (found.rule, found.shape)
    return same and now - memory.said_at < SAY_AGAIN_S


def _worth_it(signals: Signals, plan: Plan, costs: Mapping[str, HostRates], *, search: bool) -> Iterator[Proposal]:
    """Proposals with what they would bring; `search`: also for a shape that no rule thinks of."""
    spoken = False
    for proposal in _proposals(signals, plan):
        spoken = True
        gain = predicted_gain(plan, proposal.shape, costs)
        if gain is None or gain >= _WORTH_IT[proposal.rule]:
            yield proposal._replace(gain=gain)
    if not spoken and search and len(plan.placements) <= MOST_TO_SEARCH:
        better = better_shape(plan, costs, lambda shape: _allowed(plan, shape))
        if better is not None:
            yield Proposal(
                Rule.BETTER_SHAPE, better.shape, "by the costs that it measures it would be faster", better.gain
            )


def _proposals(signals: Signals, plan: Plan) -> Iterator[Proposal]:
    """Of the rules that apply now, the proposals that can be carried out; the most urgent first."""
    stale, learning, acting = signals.staleness, signals.learners_busy, signals.actors_busy
    shape = plan.learners_and_actors
    if stale > STALE_ABOVE:
        more = _more_learners(plan, shape)
        if more is not None:
            yield Proposal(Rule.MORE_LEARNERS, more, f"{stale:.0%} of the samples are stale when used")
        return
    if learning is None or acting is None:
        return
    if signals.limit == "actors" and learning < _IDLE_BELOW and acting > _BUSY_ABOVE:
        more = _more_actors(plan, shape)
        reason = f"learners are busy {learning:.0%} of the time, and actors are the limit"
        if more is not None:
            yield Proposal(Rule.MORE_ACTORS, more, reason)
            return
        left = shape.learners - 1
        fewer = _fewer(plan, Shape(left, shape.actors))
        if stale < FRESH_BELOW and left and learning * shape.learners / left < _ENOUGH_TIME and fewer is not None:
            yield Proposal(Rule.FEWER_LEARNERS, fewer, f"{reason}, and no more of them fit")
    elif learning > _BUSY_ABOVE and acting < _IDLE_BELOW:
        fewer = _fewer(plan, Shape(shape.learners, min(shape.actors - 1, shape.actors * 3 // 4)))
        if fewer is not None:
            waiting = f"learners are busy {learning:.0%} of the time, and actors wait {1 - acting:.0%} of it"
            yield Proposal(Rule.FEWER_ACTORS, fewer, waiting)


def _more_learners(plan: Plan, shape: Shape) -> Shape | None:
    wanted = Shape(shape.learners + 1, max(shape.actors, shape.learners + 1))
    return wanted if _within(plan, wanted) and _can_be(plan, wanted) else None


def _more_actors(plan: Plan, shape: Shape) -> Shape | None:
    """Half as many more, or as many as the bounds and the cores allow."""
    most = ceil(shape.actors * 1.5)
    if plan.job.elastic.max is not None:
        most = min(most, Shape.parse(plan.job.elastic.max).actors)
    fitting, beyond = shape.actors, most + 1
    while beyond - fitting > 1:
        middle = (fitting + beyond) // 2
        fits = _can_be(plan, Shape(shape.learners, middle))
        fitting, beyond = (middle, beyond) if fits else (fitting, middle)
    wanted = Shape(shape.learners, fitting)
    return wanted if fitting > shape.actors and _within(plan, wanted) else None


def _fewer(plan: Plan, wanted: Shape) -> Shape | None:
    """`wanted`, or what of it the lower bound allows; none where that is no less than now."""
    if plan.job.elastic.min is None:
        return None
    least = Shape.parse(plan.job.elastic.min)
    bounded = Shape(max(wanted.learners, least.learners, 1), max(wanted.actors, least.actors, wanted.learners))
    fewer = not bounded.covers(plan.learners_and_actors)
    return bounded if fewer and _can_be(plan, bounded) else None


def _allowed(plan: Plan, wanted: Shape) -> bool:
    """Whether the bounds allow it; to be smaller in anything needs a lower bound, as for the other rules."""
    least = plan.job.elastic.min
    if not wanted.covers(plan.learners_and_actors) and (least is None or not wanted.covers(Shape.parse(least))):
        return False
    return _within(plan, wanted) and _can_be(plan, wanted)


def _within(plan: Plan, wanted: Shape) -> bool:
    most = plan.job.elastic.max
    return most is None or Shape.parse(most).covers(wanted)


def _can_be(plan: Plan, wanted: Shape) -> bool:
    """Whether it fits. Sharing cores is for a job to ask for, by an upper bound as well as by its own key."""
    if plan.job.elastic.max is None and plan.job.distributed.oversubscribe:
        alone = plan.job.distributed.model_copy(update={"oversubscribe": False})
        plan = plan.model_copy(update={"job": plan.job.model_copy(update={"distributed": alone})})
    return can_hold(plan, wanted)
