"""What components cost here and now, by what their agents report: the same numbers as a profile measures. Pure.

Counters and core time are compared over the last `SPAN_S` seconds or so. Where components share cores, the wall time of
a step says more of the sharing than of the step, so only core time is taken from there. Time in which strangers had the
core of a component or a quota was used up is left out, as a profile leaves it out; of a host that is crowded with
strangers nothing is learnt.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from runtime.contract.forecast import Charges, trained_per_step
from runtime.contract.rates import HostRates, LearnerSpeed
from runtime.contract.states import ComponentState, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime.contract.messages import ComponentReport
    from runtime.contract.plan import Placement, Plan

SPAN_S = 20.0
LEAST_SPAN_S = 8.0  #: of which numbers are believed
MOST_OTHERS = 0.25  #: share of a component's time that strangers may have: with more, caches are theirs as well
_CROWDED = 0.1
_BUSY_ENOUGH = 0.3  #: a learner that is idle most of the time tells little of how fast it could be
_WAITS_BELOW = 0.9  #: busy share of actors that wait for room
_COUNTED = {Role.ACTOR: "env_steps", Role.LEARNER: "samples_trained"}


class _Took(NamedTuple):
    """Seconds of one component."""

    cpu: float = 0.0
    waited: float = 0.0  #: for its core, which was another's
    throttled: float = 0.0  #: held by a quota

    def plus(self, report: ComponentReport, seconds: float) -> _Took:
        """With so many seconds more in which it was as the report says."""
        assert report.cpu_percent is not None
        return _Took(
            self.cpu + report.cpu_percent / 100.0 * seconds,
            self.waited + report.waiting_percent / 100.0 * seconds,
            self.throttled + report.throttled_percent / 100.0 * seconds,
        )

    def minus(self, other: _Took) -> _Took:
        return _Took(self.cpu - other.cpu, self.waited - other.waited, self.throttled - other.throttled)


@dataclass(slots=True)
class _Trace:
    """One life of one component: when it was looked at, what it had counted, and how it has spent its time so far."""

    attempt: int
    began: float
    count: int
    took: _Took = field(default_factory=_Took)
    seen: float = 0.0
    seen_count: int = 0
    gauges: dict[str, float] = field(default_factory=dict)
    earlier: tuple[float, int, _Took] | None = None  #: the same at the middle of the span

    @property
    def span_s(self) -> float:
        return self.seen - self.began

    @property
    def per_s(self) -> float:
        return (self.seen_count - self.count) / self.span_s

    @property
    def cores(self) -> float:
        """Share of a core that it has used."""
        return self.took.cpu / self.span_s

    @property
    def waiting(self) -> float:
        """Share of its time that it was ready and others ran."""
        return min(1.0, self.took.waited / self.span_s)

    @property
    def own(self) -> float:
        """Share of its time that neither others nor a quota took from it, of others no more than is believed."""
        return max(0.01, 1.0 - min(self.waiting, MOST_OTHERS) - self.took.throttled / self.span_s)


class Others(NamedTuple):
    """Strangers on the core of a component: the share of its time that they have."""

    component: str
    host: str
    share: float

    @property
    def matter(self) -> bool:
        """Whether they are so many that nothing else has to be looked for."""
        return self.share >= _CROWDED

    @property
    def told(self) -> str:
        return f"others have {self.share:.0%} of the time of {self.component}'s core on {self.host}"


class Observed:
    """Follows the components of a run. Forgets everything when the plan changes: costs change with the company."""

    def __init__(self, plan: Plan) -> None:
        self.revise(plan)

    def revise(self, plan: Plan) -> None:
        """Another plan holds."""
        self._plan = plan
        self._placed = {p.name: p for p in plan.placements if not p.leaving}
        self._on: dict[str, list[Placement]] = {}
        self._learners: dict[int, str] = {}
        self._actors: dict[int, list[str]] = {}
        for p in self._placed.values():
            self._on.setdefault(p.host, []).append(p)
            if p.role is Role.LEARNER:
                self._learners[p.group] = p.name
            elif p.role is Role.ACTOR:
                self._actors.setdefault(p.group, []).append(p.name)
        self._traces: dict[str, _Trace] = {}
        self._known_so_far: dict[str, HostRates] = {}

    def take(self, reports: Iterable[ComponentReport], now: float) -> None:
        """What is newly reported, at `now` (seconds, monotonic)."""
        for report in reports:
            if report.name not in self._placed:
                continue
            if report.state is not ComponentState.RUNNING or report.cpu_percent is None:
                self._traces.pop(report.name, None)
                continue
            count = report.counters.get(_COUNTED.get(report.role, ""), 0)
            trace = self._traces.get(report.name)
            if trace is None or trace.attempt != report.attempt:
                self._traces[report.name] = _Trace(report.attempt, now, count, seen=now, seen_count=count)
                continue
            trace.took = trace.took.plus(report, now - trace.seen)
            trace.seen, trace.seen_count, trace.gauges = now, count, report.gauges
            self._move_on(trace)

    def _move_on(self, trace: _Trace) -> None:
        """Let go of what is older than the span."""
        if trace.earlier is None and trace.span_s >= SPAN_S / 2:
            trace.earlier = (trace.seen, trace.seen_count, trace.took)
        elif trace.earlier is not None and trace.span_s >= SPAN_S:
            trace.began, trace.count, before = trace.earlier
            trace.took = trace.took.minus(before)
            trace.earlier = (trace.seen, trace.seen_count, trace.took)

    def rates(self) -> dict[str, HostRates]:
        """Costs on each host where enough was seen by now; what was measured before fills the gaps.

        When components leave, what was known of them last still is.
        """
        for host in self._plan.hosts:
            rates = self._of_host(host.name)
            if rates is not None:
                self._known_so_far[host.name] = rates
        return dict(self._known_so_far)

    def others(self, host: str | None = None) -> Others | None:
        """Where strangers have most of the time of a learner's or an actor's own core; none where nobody waits."""
        found = [
            Others(p.name, p.host, max(0.0, trace.waiting - self._light(each)))
            for each in (sorted(self._on) if host is None else [host])
            for p in self._alone(each)
            if (trace := self._traces.get(p.name)) is not None
            if trace.span_s >= LEAST_SPAN_S
        ]
        return max(found, key=lambda others: others.share, default=None)

    def _light(self, host: str) -> float:
        """Core time of what the run itself has beside its learners and actors."""
        traces = (self._traces.get(p.name) for p in self._on[host] if p.role not in (Role.LEARNER, Role.ACTOR))
        working = sum(trace.cores for trace in traces if trace is not None and trace.span_s > 0)
        return working + Charges().standing(len(self._plan.hosts), head=host == self._plan.head)

    def _alone(self, host: str) -> list[Placement]:
        """Learners and actors whose cores no other learner or actor has."""
        heavy = [p for p in self._on.get(host, ()) if p.role in (Role.LEARNER, Role.ACTOR)]
        users = Counter(cpu for p in heavy for cpu in p.cores)
        return [p for p in heavy if all(users[cpu] == 1 for cpu in p.cores)]

    def _of_host(self, host: str) -> HostRates | None:
        if not any(self._known(host, role) for role in (Role.ACTOR, Role.LEARNER)):
            return None
        others = self.others(host)
        if others is not None and others.share > MOST_OTHERS:
            return None
        prior = self._plan.rates.get(host)
        shared = self._is_shared(host)
        acting = self._acting(host, prior, shared=shared)
        learning = self._learning(host, prior, shared=shared)
        if acting is None or learning is None:
            return None
        receive_s, buffer_cpu_s = self._receiving(host, prior)
        return HostRates(
            actor_steps_per_s=acting[0],
            actor_cpu_s_per_step=acting[1],
            learner=learning,
            buffer_cpu_s_per_step=buffer_cpu_s,
            receive_s_per_step=receive_s,
            courier_cpu_s_per_step=0.0 if prior is None else prior.courier_cpu_s_per_step,
        )

    def _is_shared(self, host: str) -> bool:
        """Whether a learner or an actor has to share a core with another one."""
        heavy = [p for p in self._on.get(host, ()) if p.role in (Role.LEARNER, Role.ACTOR)]
        return len(self._alone(host)) < len(heavy)

    def _known(self, host: str, role: Role) -> list[tuple[Placement, _Trace]]:
        return [
            (p, trace)
            for p in self._on.get(host, ())
            if p.role is role and (trace := self._traces.get(p.name)) is not None
            if trace.span_s >= LEAST_SPAN_S
        ]

    def _acting(self, host: str, prior: HostRates | None, *, shared: bool) -> tuple[float, float] | None:
        """(steps per second of an actor that is let run, core seconds of a step); of the prior where none is known."""
        known = [(p, t) for p, t in self._known(host, Role.ACTOR) if t.per_s > 0 and t.gauges.get("t_sp_s", 0.0) > 0]
        if not known:
            return None if prior is None else (prior.actor_steps_per_s, prior.actor_cpu_s_per_step)
        samples = self._plan.sizes.fragment_samples
        pace = sum(samples / _own_s(trace, samples, shared=shared) for _, trace in known) / len(known)
        cpu_s = sum(trace.cores for _, trace in known) / sum(trace.per_s for _, trace in known)
        if shared and prior is not None and prior.actor_cpu_s_per_step > 0 and cpu_s > 0:
            # What waiting for a core has added to the wall time is not the step's.
            pace = max(pace, prior.actor_steps_per_s * min(1.0, prior.actor_cpu_s_per_step / cpu_s))
        return pace, cpu_s

    def _learning(self, host: str, prior: HostRates | None, *, shared: bool) -> tuple[LearnerSpeed, ...] | None:
        known = [(p, t) for p, t in self._known(host, Role.LEARNER) if t.gauges.get("busy_share", 0.0) >= _BUSY_ENOUGH]
        if not known:
            return None if prior is None else prior.learner
        cores = known[0][0].threads
        held = all(self._learner_is_the_limit(p.group) for p, _ in known)
        # Between two batches even the slowest learner waits a moment for its buffer: where it is the limit, what it
        # reaches is its rate, and not what it would reach without that moment.
        busy = {p.name: 1.0 if held else min(1.0, t.gauges["busy_share"]) for p, t in known}
        pace = sum(t.per_s / (busy[p.name] * t.own) for p, t in known) / len(known)
        trained = sum(trace.per_s for _, trace in known)
        cpu_s = sum(trace.cores for _, trace in known) / trained if trained > 0 else 0.0
        if pace <= 0 or cpu_s <= 0:
            return None if prior is None else prior.learner
        if prior is None:
            return (LearnerSpeed(cores=cores, samples_per_s=pace, cpu_s_per_sample=cpu_s),)
        before = prior.learner_on(cores)
        slower = cpu_s / before.cpu_s_per_sample if before.cpu_s_per_sample > 0 else 1.0
        faster = pace / before.samples_per_s if held and not shared else 1.0 / slower
        return tuple(
            LearnerSpeed(
                cores=speed.cores,
                samples_per_s=speed.samples_per_s * faster,
                cpu_s_per_sample=speed.cpu_s_per_sample * slower,
            )
            for speed in prior.learner
        )

    def _learner_is_the_limit(self, group: int) -> bool:
        """Whether the actors of a group wait for room."""
        shares = [
            trace.gauges["busy_share"]
            for name in self._actors.get(group, ())
            if (trace := self._traces.get(name)) is not None
            if "busy_share" in trace.gauges
        ]
        return bool(shares) and sum(shares) / len(shares) < _WAITS_BELOW

    def _receiving(self, host: str, prior: HostRates | None) -> tuple[float, float]:
        """(wall seconds, core seconds) of a buffer for each step."""
        known = self._known(host, Role.BUFFER)
        steps = sum(self._steps_of(p.group) for p, _ in known)
        if not known or steps <= 0:
            return (0.0, 0.0) if prior is None else (prior.receive_s_per_step, prior.buffer_cpu_s_per_step)
        times = [trace.gauges["t_rv_s"] for _, trace in known if trace.gauges.get("t_rv_s", 0.0) > 0]
        receive_s = sum(times) / len(times) / self._plan.sizes.fragment_samples if times else 0.0
        if not times and prior is not None:
            receive_s = prior.receive_s_per_step
        return receive_s, sum(trace.cores for _, trace in known) / steps

    def _steps_of(self, group: int) -> float:
        """Environment steps per second that a group's learner uses, by what it trains on."""
        trace = self._traces.get(self._learners.get(group, ""))
        if trace is None or trace.span_s < LEAST_SPAN_S:
            return 0.0
        return trace.per_s / trained_per_step(self._plan.job)


def _own_s(actor: _Trace, samples: int, *, shared: bool) -> float:
    """Seconds of an actor for a fragment of so many samples, without those that strangers or a quota took."""
    fragments = (actor.seen_count - actor.count) / samples
    if shared or fragments <= 0:
        return actor.gauges["t_sp_s"]
    return max(
        actor.took.cpu / fragments, actor.gauges["t_sp_s"] - (actor.took.waited + actor.took.throttled) / fragments
    )
