"""One change of a plan, step by step: who leaves, who joins, where. Names rise and are never given twice. Pure."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from runtime.contract.drafting import HEAVY, Draft, NoRoomError
from runtime.contract.plan import HostPlan, NamesUsed, Placement
from runtime.contract.shape import share
from runtime.contract.states import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from runtime.contract.job import Job
    from runtime.contract.plan import Plan, Sizes

MOST_NAMES = 4096  #: actors that one attempt of a run may ever name: buffers count by number


def least_actors(sizes: Sizes) -> int:
    """Actors that a group needs at least: a batch is gathered from its rings, which together must hold one whole."""
    return max(1, ceil(sizes.fragments_per_batch / sizes.ring_slots))


def names_used(plan: Plan) -> NamesUsed:
    """What the plan says, and at least what it shows."""
    actors = max((p.index + 1 for p in plan.of_role(Role.ACTOR)), default=0)
    groups = max((p.group + 1 for p in plan.placements if p.role is not Role.EVALUATOR), default=0)
    return NamesUsed(actors=max(actors, plan.names_used.actors), groups=max(groups, plan.names_used.groups))


class Arranging:
    """Placements as they change. First everybody who leaves is marked, then `begin` counts who stays, then others join.

    `away`: nodes that do not answer now: what is there stays as it is. `closed` ones get nothing new.
    """

    def __init__(
        self,
        job: Job,
        sizes: Sizes,
        hosts: Sequence[HostPlan],
        placements: Iterable[Placement] = (),
        *,
        used: NamesUsed | None = None,
        away: frozenset[str] = frozenset(),
        closed: frozenset[str] = frozenset(),
    ) -> None:
        self.hosts = tuple(hosts)
        self.placements = list(placements)
        self.away = away
        self.used = used or NamesUsed()
        self.least = least_actors(sizes)
        self.threads = max((p.threads for p in self.placements if p.role is Role.LEARNER), default=1)
        self.light = {role: self._charge(role) for role in (Role.BUFFER, Role.EVALUATOR)}
        self._job = job
        self._before = {p.name for p in self.placements}
        self._closed = closed | away
        self.begin()

    def _charge(self, role: Role) -> float:
        return next((p.core_share for p in self.placements if p.role is role), 0.25)

    # -- who is there

    def staying(self, role: Role, group: int | None = None) -> list[Placement]:
        return [p for p in self.placements if p.role is role and not p.leaving and group in (None, p.group)]

    def groups(self) -> list[int]:
        """Groups that stay, rising."""
        return sorted(p.group for p in self.staying(Role.LEARNER))

    def lost_groups(self) -> list[int]:
        """Those of them whose home is away."""
        return sorted(p.group for p in self.staying(Role.LEARNER) if p.host in self.away)

    def home(self, group: int) -> str:
        return next(p.host for p in self.staying(Role.LEARNER, group))

    def present(self, group: int) -> list[Placement]:
        """Actors of a group that stay, on nodes that are there; the newest first."""
        found = [p for p in self.staying(Role.ACTOR, group) if p.host not in self.away]
        return sorted(found, key=lambda p: -p.index)

    # -- who leaves

    def leave(self, wanted: Callable[[Placement], bool]) -> list[Placement]:
        """Mark everybody of whom `wanted` is true; returns those who had not been leaving yet."""
        newly = [p for p in self.placements if not p.leaving and wanted(p)]
        names = {p.name for p in newly}
        self.placements = [p.model_copy(update={"leaving": True}) if p.name in names else p for p in self.placements]
        return newly

    def leave_named(self, names: set[str]) -> list[Placement]:
        """Mark these."""
        return self.leave(lambda p: p.name in names)

    def leave_groups(self, groups: Iterable[int]) -> None:
        """Learner, buffer and actors, wherever they are."""
        leaving = frozenset(groups)
        self.leave(lambda p: p.role is not Role.EVALUATOR and p.group in leaving)

    def shrink_group(self, group: int, size: int) -> None:
        """Actors beyond `size` leave: those that are away first, then the newest."""
        order = sorted(self.staying(Role.ACTOR, group), key=lambda p: (p.host in self.away, p.index))
        self.leave_named({p.name for p in order[size:]})

    # -- who joins

    def begin(self) -> None:
        """Count who stays, once everybody who leaves is marked."""
        self._draft = Draft(
            self.hosts,
            self.placements,
            closed=self._closed,
            oversubscribe=self._job.distributed.oversubscribe,
        )
        homes = {p.group: p.host for p in self.staying(Role.LEARNER)}
        for actor in self.staying(Role.ACTOR):
            if homes.get(actor.group, actor.host) != actor.host:
                self._draft.link(homes[actor.group], actor.host)

    def add_learner(self, group: int, donor: int | None, *, first: str | None = None) -> None:
        """The learner of a new group; its actors and its buffer are to follow."""
        host, cores = self._draft.learner(self.threads, first=first)
        self._join(Role.LEARNER, group, group, host, cores, float(self.threads), threads=self.threads, donor=donor)

    def add_actors(self, wanted: dict[int, int]) -> None:
        """So many more actors for each group. Groups take turns, so that none gets all the good places."""
        left, places = dict(wanted), []
        homes = {group: self.home(group) for group in wanted}
        while any(left.values()):
            group = max(left, key=lambda g: (left[g], -g))
            left[group] -= 1
            places.append((group, *self._draft.actor(homes[group])))
        for group, host, cores in sorted(places, key=lambda place: place[0]):
            self.add_actor(group, host, cores, 1.0)

    def add_actor(self, group: int, host: str, cores: tuple[int, ...], core_share: float) -> None:
        """One more actor at a place that is known."""
        index = self.used.actors
        if index >= MOST_NAMES:
            raise NoRoomError(f"{MOST_NAMES} actors have been named, and no name is given twice: stop and resume")
        self.used = self.used.model_copy(update={"actors": index + 1})
        self._join(Role.ACTOR, index, group, host, cores, core_share)

    def add_buffers(self) -> None:
        """Every new learner's, on its node."""
        served = {buffer.group for buffer in self.staying(Role.BUFFER)}
        for learner in self.staying(Role.LEARNER):
            if learner.group not in served:
                cores = self._draft.floating(learner.host)
                self._join(Role.BUFFER, learner.group, learner.group, learner.host, cores, self.light[Role.BUFFER])

    def add_evaluator(self) -> None:
        """If the job wants one and none stays: with the first group whose learner is there."""
        if not self._job.evaluation.enabled or self.staying(Role.EVALUATOR):
            return
        group = min(self.groups(), key=lambda g: (self.home(g) in self.away, g))
        index = max((p.index + 1 for p in self.placements if p.role is Role.EVALUATOR), default=0)
        host = self._draft.evaluator(self.home(group))
        self._join(Role.EVALUATOR, index, group, host, self._draft.floating(host), self.light[Role.EVALUATOR])

    def _join(
        self,
        role: Role,
        index: int,
        group: int,
        host: str,
        cores: tuple[int, ...],
        core_share: float,
        *,
        threads: int = 1,
        donor: int | None = None,
    ) -> None:
        if role is Role.LEARNER:
            self.used = self.used.model_copy(update={"groups": max(self.used.groups, group + 1)})
        self.placements.append(
            Placement(
                name=f"{role}-{index}",
                role=role,
                index=index,
                group=group,
                host=host,
                cores=cores,
                core_share=core_share,
                threads=threads,
                donor=donor,
            )
        )

    # -- the result

    def shared_out(self) -> tuple[Placement, ...]:
        """All placements; who is new is charged what its node has for it."""

        def charged(placement: Placement) -> Placement:
            if placement.name in self._before or placement.role is not Role.ACTOR:
                return placement
            return placement.model_copy(update={"core_share": self._draft.share(placement.host)})

        return tuple(charged(p) for p in self.placements)

    def shared_hosts(self) -> tuple[HostPlan, ...]:
        """The nodes; how far one is oversubscribed is worked out anew where somebody joins or leaves."""
        changed = {p.host for p in self.placements if p.leaving or p.name not in self._before}
        light = {
            name: sum(p.core_share for p in self.placements if p.host == name and p.role not in HEAVY and not p.leaving)
            for name in changed
        }
        return tuple(
            host.model_copy(update={"oversubscription": self._draft.oversubscription(host.name, light[host.name])})
            if host.name in changed
            else host
            for host in self.hosts
        )


def even_targets(counts: dict[int, int], total: int) -> dict[int, int]:
    """Split `total` actors over groups as evenly as can be; the larger shares go where most are already."""
    order = sorted(counts, key=lambda group: (-counts[group], group))
    return {group: share(total, len(order), position) for position, group in enumerate(order)}


def check_actors(actors: int, groups: int, least: int, sizes: Sizes) -> None:
    """NoRoomError where a group would have too few actors to fill a batch."""
    if groups < 1:
        raise NoRoomError("no node with a learner is there")
    if actors < groups * least:
        why = "" if least == 1 else f" to fill a batch of {sizes.fragments_per_batch} fragments"
        raise NoRoomError(f"each learner needs {least} actor(s) or more{why}, and there would be {actors} for {groups}")
