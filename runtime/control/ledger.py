"""The sample ledger of a whole run, from what nodes say of their rings. Pure.

    produced = consumed + dropped_stale + dropped_other + in_flight        after every report

An actor whose group lives on another node has its ring twice: *near*, where it writes, and *far*, at the group's home,
where the buffer reads. What it produced is the larger of both counts: whichever report came last, no sample is seen to
be used before it was made. What became of its samples is what the far ring says. On-policy, a sample is consumed when
the learner releases its batch; off-policy, when it has entered the replay memory.

An actor that the plan has dropped keeps its account open until every node that holds one of its rings works by that
plan, or has begun anew: only then is it known that nothing more of it can come, and what has not arrived counts as
dropped. So no total ever goes back, and nothing is counted as lost that is used after all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pydantic import Field

from runtime.contract.messages import RingLedger
from runtime.contract.model import View
from runtime.contract.plan import Plan
from runtime.contract.states import Role
from runtime.contract.view import Samples

_NOTHING = RingLedger()


class Way(View):
    """An actor's way to its buffer."""

    group: int
    near: str  #: the actor's node
    home: str  #: its group's node
    dropped: int | None = None  #: the first revision of the plan without it


class Home(View):
    """Where the batches of a group are."""

    node: str
    learner: str  #: its name
    dropped: int | None = None


class Books(View):
    """All that the ledger knows, for a coordinator that takes over: rings that are gone are reported by nobody."""

    rings: dict[str, dict[str, RingLedger]] = Field(default_factory=dict)  #: node → ring → its counts
    ways: dict[str, Way] = Field(default_factory=dict)  #: by actor
    homes: dict[int, Home] = Field(default_factory=dict)  #: by group
    closed: dict[int, RingLedger] = Field(
        default_factory=dict
    )  #: accounts of dropped actors, by group that is still open
    settled: RingLedger = _NOTHING  #: accounts of dropped groups


class Ledger:
    """Counts what is reported; `revise` tells it of every new plan."""

    def __init__(self, plan: Plan, *, on_policy: bool, books: Books | None = None) -> None:
        books = books or Books()
        self._on_policy = on_policy
        self._rings = {node: dict(rings) for node, rings in books.rings.items()}
        self._ways = dict(books.ways)
        self._homes = dict(books.homes)
        self._closed = dict(books.closed)
        self._settled = books.settled
        self.revise(plan)

    def books(self) -> Books:
        return Books(rings=self._rings, ways=self._ways, homes=self._homes, closed=self._closed, settled=self._settled)

    def revise(self, plan: Plan) -> None:
        """Another plan holds: open accounts for what is new, and mark what is dropped."""
        for learner in plan.of_role(Role.LEARNER):
            self._homes.setdefault(learner.group, Home(node=learner.host, learner=learner.name))
        for actor in plan.of_role(Role.ACTOR):
            if actor.name not in self._ways:
                home = self._homes[actor.group].node
                self._ways[actor.name] = Way(group=actor.group, near=actor.host, home=home)
        names = {placement.name for placement in plan.placements}
        for name, way in self._ways.items():
            if name not in names and way.dropped is None:
                self._ways[name] = way.model_copy(update={"dropped": plan.revision})
        for group, there in self._homes.items():
            if group not in plan.groups and there.dropped is None:
                self._homes[group] = there.model_copy(update={"dropped": plan.revision})

    def take(self, node: str, rings: Mapping[str, RingLedger]) -> None:
        """What a node says of its rings. Counts only grow: an older word changes nothing."""
        known = self._rings.setdefault(node, {})
        for ring, counts in rings.items():
            if self._concerns(node, ring):
                known[ring] = _grown(known.get(ring, _NOTHING), counts)

    def _concerns(self, node: str, ring: str) -> bool:
        kind, _, name = ring.partition(".")
        if kind == "fragments":
            return (way := self._ways.get(name)) is not None and node in (way.near, way.home)
        if kind == "batches" and name.isdigit():
            return (home := self._homes.get(int(name))) is not None and home.node == node
        return False

    # -- what is where

    def _ring(self, node: str, ring: str) -> RingLedger:
        return self._rings.get(node, {}).get(ring, _NOTHING)

    def _account(self, name: str) -> RingLedger:
        """Of one actor, as things stand."""
        way = self._ways[name]
        near, far = self._ring(way.near, f"fragments.{name}"), self._ring(way.home, f"fragments.{name}")
        return far.model_copy(update={"produced": max(near.produced, far.produced)})

    def _batches(self, group: int) -> RingLedger:
        return self._ring(self._homes[group].node, f"batches.{group}")

    def drained(self, actor: str, forsaken: Collection[str] = ()) -> bool:
        """Whether all that this actor has made is used up. Rings of `forsaken` components are gone from their nodes."""
        way, ring = self._ways[actor], f"fragments.{actor}"
        if self._homes[way.group].learner in forsaken:
            return True
        near, far = self._ring(way.near, ring), self._ring(way.home, ring)
        return _rest(far) == 0 and (actor in forsaken or near.produced <= far.produced)

    def group_drained(self, group: int, forsaken: Collection[str] = ()) -> bool:
        """Whether no batch of this group waits for its learner."""
        over = not self._on_policy or self._homes[group].learner in forsaken
        return over or _rest(self._batches(group)) == 0

    # -- what is over

    @property
    def closing(self) -> bool:
        """Whether there are accounts of what the plan has dropped."""
        ways = any(way.dropped is not None for way in self._ways.values())
        return ways or any(home.dropped is not None for home in self._homes.values())

    def holds(self, name: str) -> bool:
        """Whether this component's account, or that of the group of this learner, is still open."""
        return name in self._ways or any(home.learner == name for home in self._homes.values())

    def close(self, revisions: Mapping[str, int], forsaken: Collection[str] = ()) -> None:
        """Close what was dropped and can bring nothing more.

        `revisions`: by which plan each node works; `forsaken`: components whose node has begun anew.
        """

        def over(node: str, dropped: int, name: str) -> bool:
            return name in forsaken or revisions.get(node, 0) >= dropped

        for name, way in [(name, way) for name, way in self._ways.items() if way.dropped is not None]:
            assert way.dropped is not None
            learner = self._homes[way.group].learner
            if over(way.near, way.dropped, name) and over(way.home, way.dropped, learner):
                self._close_actor(name, way)
        open_groups = {way.group for way in self._ways.values()}
        for group, home in [(group, home) for group, home in self._homes.items() if home.dropped is not None]:
            assert home.dropped is not None
            if group not in open_groups and over(home.node, home.dropped, home.learner):
                self._close_group(group, home)

    def _close_actor(self, name: str, way: Way) -> None:
        account = _written_off(self._account(name))
        del self._ways[name]
        self._forget(f"fragments.{name}", way.near, way.home)
        self._closed[way.group] = _sum([self._closed.get(way.group, _NOTHING), account])

    def _close_group(self, group: int, home: Home) -> None:
        account = self._closed.pop(group, _NOTHING)
        if self._on_policy:
            account = _with_batches(account, self._batches(group))
        del self._homes[group]
        self._forget(f"batches.{group}", home.node)
        self._settled = _sum([self._settled, _written_off(account)])

    def _forget(self, ring: str, *nodes: str) -> None:
        for node in nodes:
            self._rings.get(node, {}).pop(ring, None)

    # -- what it comes to

    def samples(self, base: Samples) -> tuple[Samples, int]:
        """The ledger of the run on top of what earlier attempts had counted.

        The second value is by how many samples its parts exceed what was produced: 0 unless a ring was read half-way
        through something impossible.
        """
        total = _sum([*map(self._account, self._ways), *self._closed.values()])
        if self._on_policy:
            total = _with_batches(total, _sum(map(self._batches, self._homes)))
        total = _sum([total, self._settled])
        produced = base.produced + total.produced
        consumed = base.consumed + total.consumed
        stale, other = base.dropped_stale + total.dropped_stale, base.dropped_other + total.dropped_other
        rest = produced - consumed - stale - other
        samples = Samples(
            produced=max(produced, produced - rest),
            consumed=consumed,
            dropped_stale=stale,
            dropped_other=other,
            in_flight=max(0, rest),
        )
        return samples, max(0, -rest)


def _grown(before: RingLedger, after: RingLedger) -> RingLedger:
    if before == after:
        return before
    return RingLedger(
        produced=max(before.produced, after.produced),
        consumed=max(before.consumed, after.consumed),
        dropped_stale=max(before.dropped_stale, after.dropped_stale),
        dropped_other=max(before.dropped_other, after.dropped_other),
    )


def _rest(counts: RingLedger) -> int:
    return counts.produced - counts.consumed - counts.dropped_stale - counts.dropped_other


def _written_off(account: RingLedger) -> RingLedger:
    """With what is left of it counted as dropped."""
    return account.model_copy(update={"dropped_other": account.dropped_other + max(0, _rest(account))})


def _with_batches(actors: RingLedger, batches: RingLedger) -> RingLedger:
    """On-policy: what the actors of a group made, and what became of it in its batches."""
    return RingLedger(
        produced=actors.produced,
        consumed=batches.consumed,
        dropped_stale=actors.dropped_stale + batches.dropped_stale,
        dropped_other=actors.dropped_other + batches.dropped_other,
    )


def _sum(accounts: Iterable[RingLedger]) -> RingLedger:
    produced = consumed = stale = other = 0
    for account in accounts:
        produced += account.produced
        consumed += account.consumed
        stale += account.dropped_stale
        other += account.dropped_other
    return RingLedger(produced=produced, consumed=consumed, dropped_stale=stale, dropped_other=other)
