"""What a placement should reach, from measured rates: the one place that knows how throughput follows from it. Pure.

Each group's actors produce; a learner, a buffer, a host's core time or a network may hold them back. Back-pressure
makes all that share a limit slow down alike, so the flows are those of max-min fairness (`filling.py`).

    actors     x_gh ≤ n_gh · r_h                      steps/s of group g's n actors on host h
    learner    ratio · Σ_h x_gh ≤ L(threads)          samples/s
    receiver   Σ_h x_gh ≤ 1 / T_rv                    one buffer a group
    cores      light + Σ cost · x ≤ cores             core time of whatever shares cores on a host
    quota      light + Σ cost · x ≤ capacity          core time of everything on it, where it has less than its cores
    network    bytes · Σ x ≤ MB/s                     what leaves a host, and what comes in
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Self

from runtime.contract.algorithm import DqnConfig
from runtime.contract.filling import Limit, fill
from runtime.contract.states import Dependencies, Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
    from runtime.contract.plan import Placement, Plan
    from runtime.contract.rates import HostRates


class Side(StrEnum):
    """What may hold a group back."""

    ACTORS = "actors"
    LEARNER = "learner"
    RECEIVER = "receiver"
    CORES = "cores"
    NETWORK = "network"


class Held(NamedTuple):
    """One limit: of a group (its number) or of a host (its name)."""

    side: Side
    where: int | str


@dataclass(frozen=True, slots=True)
class Charges:
    """Shares of a core for what does not depend on the flow."""

    node: float = 0.02  #: agent
    coordinator: float = 0.01
    report: float = 0.015  #: of the coordinator, for each node but its own
    evaluator: float = 0.25
    link: float = 0.02  #: a courier at rest

    @classmethod
    def none(cls) -> Self:
        """Nothing is charged."""
        return cls(**dict.fromkeys(cls.__slots__, 0.0))

    def standing(self, nodes: int, *, head: bool) -> float:
        """Of one node of so many, for agent, coordinator and couriers: links lead to the head."""
        if head:
            return self.node + self.coordinator + (self.report + self.link) * (nodes - 1)
        return self.node + self.link


@dataclass(frozen=True, slots=True)
class GroupForecast:
    """One group: environment steps per second, and what holds it back, the most of its actors first."""

    group: int
    env_steps_per_s: float
    held_by: tuple[Held, ...]
    learner_busy: float  #: share of its time
    actors_busy: float
    receiver_busy: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """The run: steps and samples per second, over all groups."""

    env_steps_per_s: float
    samples_per_s: float
    groups: tuple[GroupForecast, ...]
    learners_alone: float  #: samples/s if nothing but the learners were a limit
    actors_alone: float  #: samples/s if nothing but the actors were

    @property
    def side(self) -> Side:
        """What holds back the largest part of the flow."""
        weight: dict[Side, float] = {}
        for group in self.groups:
            for held in group.held_by[:1]:
                weight[held.side] = weight.get(held.side, 0.0) + group.env_steps_per_s
        return max(weight, key=lambda side: weight[side], default=Side.ACTORS)


def trained_per_step(job: Job) -> float:
    """Samples trained on per environment step: 1 on-policy, the pace rule's target otherwise."""
    return job.algorithm.samples_per_insert if isinstance(job.algorithm, DqnConfig) else 1.0


def bytes_per_step(env: EnvSpec) -> int:
    """What one step takes in a fragment: observation and successor in single precision, and its scalars."""
    return 2 * 4 * env.observation_size + 40


def forecast(plan: Plan, rates: Mapping[str, HostRates], charges: Charges = Charges()) -> Forecast | None:
    """What the plan should reach; none where a host that it uses was not measured. Leaving components do not count."""
    placed = [p for p in plan.placements if not p.leaving]
    if not placed or any(p.host not in rates for p in placed):
        return None
    return _Flows(plan, placed, rates, charges).forecast()


class _Flows:
    """One flow for each (group, host) that has actors."""

    def __init__(
        self, plan: Plan, placed: Sequence[Placement], rates: Mapping[str, HostRates], charges: Charges
    ) -> None:
        self._plan = plan
        self._on: dict[str, list[Placement]] = {}
        for p in placed:
            self._on.setdefault(p.host, []).append(p)
        self._rates = rates
        self._charges = charges
        self._ratio = trained_per_step(plan.job)
        self._learners = {p.group: p for p in placed if p.role is Role.LEARNER}
        counts: dict[tuple[int, str], int] = {}
        for p in placed:
            if p.role is Role.ACTOR and p.group in self._learners:
                counts[p.group, p.host] = counts.get((p.group, p.host), 0) + 1
        self._keys = sorted(counts)
        self._members: dict[int, list[int]] = {group: [] for group in self._learners}
        for index, (group, _) in enumerate(self._keys):
            self._members[group].append(index)
        self._paces = [counts[key] * rates[key[1]].actor_steps_per_s for key in self._keys]

    def forecast(self) -> Forecast:
        filled = fill(self._paces, list(self._limits()))
        groups = tuple(self._group(group, filled.flows, filled.stopped_by) for group in sorted(self._learners))
        steps = sum(group.env_steps_per_s for group in groups)
        learners = sum(self._speed(p) for p in self._learners.values())
        actors = self._ratio * sum(self._paces)
        if self._plan.job.training.dependencies is not Dependencies.RELAXED and steps > 0:
            # They take turns: a sample costs the time of both sides.
            steps = 1.0 / (1.0 / steps + self._ratio / learners)
        return Forecast(steps, steps * self._ratio, groups, learners, actors)

    def _speed(self, learner: Placement) -> float:
        return self._rates[learner.host].learner_on(learner.threads).samples_per_s

    def _limits(self) -> Iterator[Limit]:
        for index, (_, host) in enumerate(self._keys):
            yield Limit(Held(Side.ACTORS, host), {index: 1.0}, self._paces[index])
        for group, learner in self._learners.items():
            mine = self._members[group]
            yield Limit(Held(Side.LEARNER, group), dict.fromkeys(mine, self._ratio), self._speed(learner))
            receive_s = self._rates[learner.host].receive_s_per_step
            if receive_s > 0:
                yield Limit(Held(Side.RECEIVER, group), dict.fromkeys(mine, receive_s), 1.0)
        for host in self._on:
            yield from self._host_limits(host)

    def _host_limits(self, host: str) -> Iterator[Limit]:
        """Core time of what shares cores on the host, that of everything where a quota caps it, and its network."""
        rates, exclusive = self._rates[host], self._exclusive(host)
        shared: dict[int, float] = {}
        whole: dict[int, float] = {}
        leaving: dict[int, float] = {}
        coming: dict[int, float] = {}
        for index, (group, where) in enumerate(self._keys):
            home, learner = self._learners[group].host, self._learners[group]
            each = training = 0.0
            if where == host:
                each += rates.actor_cpu_s_per_step
            if home == host:
                each += rates.buffer_cpu_s_per_step
                training = self._ratio * rates.learner_on(learner.threads).cpu_s_per_sample
            if where != home and host in (where, home):
                each += rates.courier_cpu_s_per_step
                (leaving if where == host else coming)[index] = float(bytes_per_step(self._plan.env))
            whole[index] = each + training
            shared[index] = each if learner.name in exclusive else whole[index]
        planned, light = self._plan.host(host), self._light(host)
        cores = len(planned.cores) - sum(exclusive.values())
        yield from _core_limit(host, shared, cores - light)
        if planned.capacity is not None:
            yield from _core_limit(host, whole, planned.capacity - light)
        if planned.mb_per_s is not None:
            for way in (leaving, coming):
                if way:
                    yield Limit(Held(Side.NETWORK, host), way, planned.mb_per_s * 1e6)

    def _exclusive(self, host: str) -> dict[str, int]:
        """Learners with cores that no other component is pinned to, and how many those are."""
        users = Counter(cpu for p in self._on[host] for cpu in p.cores)
        learners = [p for p in self._on[host] if p.role is Role.LEARNER]
        return {p.name: len(p.cores) for p in learners if all(users[cpu] == 1 for cpu in p.cores)}

    def _light(self, host: str) -> float:
        """Core time that does not depend on the flow."""
        evaluators = sum(p.role is Role.EVALUATOR for p in self._on[host])
        standing = self._charges.standing(len(self._plan.hosts), head=host == self._plan.head)
        return standing + evaluators * self._charges.evaluator

    def _group(self, group: int, flows: Sequence[float], stopped: Sequence[tuple[object, ...]]) -> GroupForecast:
        mine, learner = self._members[group], self._learners[group]
        steps = sum(flows[index] for index in mine)
        weight: dict[Held, float] = {}
        for index in mine:
            for name in stopped[index]:
                assert isinstance(name, Held)
                weight[name] = weight.get(name, 0.0) + self._paces[index]
        pace = sum(self._paces[index] for index in mine)
        return GroupForecast(
            group=group,
            env_steps_per_s=steps,
            held_by=tuple(sorted(weight, key=lambda held: (-weight[held], held.side, str(held.where)))),
            learner_busy=self._ratio * steps / self._speed(learner),
            actors_busy=steps / pace if pace > 0 else 0.0,
            receiver_busy=steps * self._rates[learner.host].receive_s_per_step,
        )


def _core_limit(host: str, costs: Mapping[int, float], most: float) -> Iterator[Limit]:
    """None where nothing on the host costs anything."""
    weights = {index: cost for index, cost in costs.items() if cost > 0}
    if weights:
        yield Limit(Held(Side.CORES, host), weights, max(0.0, most))
