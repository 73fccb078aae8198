"""A plan in the making: how full its nodes are, where one more component goes, and on which cores. Pure.

Learners and actors are *heavy*: each is charged whole cores. Buffers and the evaluator are light and float over cores
that nobody has. What is about to leave counts for nothing: its cores are free.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from runtime.contract.plan import HostPlan, Placement
from runtime.contract.states import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_PER_CORE = 64  #: components that may share one core where sharing is allowed at all
HEAVY = (Role.LEARNER, Role.ACTOR)


class NoRoomError(Exception):
    """No node can take one more component; the message says which were looked at."""


class Draft:
    """Placements over nodes. `closed` nodes keep what they have and get nothing new."""

    def __init__(
        self,
        hosts: Sequence[HostPlan],
        placements: Iterable[Placement] = (),
        *,
        closed: Iterable[str] = (),
        oversubscribe: bool = False,
    ) -> None:
        self.hosts = tuple(hosts)
        self._nodes = {host.name: _Node(host) for host in hosts}
        self._closed = frozenset(closed)
        self._oversubscribe = oversubscribe
        self._links: set[frozenset[str]] = set()
        for placement in placements:
            self.count(placement)

    def count(self, placement: Placement) -> None:
        """Take a component into account that is where it is."""
        if not placement.leaving and placement.host in self._nodes:
            self._nodes[placement.host].count(placement)

    def link(self, home: str, node: str) -> None:
        """The two nodes share data already."""
        self._links.add(frozenset((home, node)))

    def learner(self, threads: int, *, first: str | None = None) -> tuple[str, tuple[int, ...]]:
        """Node and cores for one more learner: `first` if it has room, else the emptiest; NoRoomError."""
        able = [node for node in self._open(Role.LEARNER) if len(node.host.cores) >= threads]
        if not able:
            raise NoRoomError(f"no node that may hold a learner has {threads} core(s)")
        with_room = [node for node in able if node.room >= threads]
        if with_room:
            # A node where no actor may run is of no other use.
            chosen = min(with_room, key=lambda n: (n.host.name != first, n.may(Role.ACTOR), -n.room))
        else:
            chosen = min(self._shared(able, "a learner"), key=lambda n: (n.learners / len(n.host.cores), n.load))
        cores = chosen.least_loaded(threads)
        chosen.take(cores, float(threads), learners=1)
        return chosen.host.name, cores

    def actor(self, home: str) -> tuple[str, tuple[int, ...]]:
        """Node and core for one more actor of the group at `home`: near it while there is room; NoRoomError."""
        able = self._open(Role.ACTOR)
        if not able:
            raise NoRoomError("no node may hold an actor")
        with_room = [node for node in able if node.room >= 1]

        def distance(node: _Node) -> int:
            if node.host.name == home:
                return 0
            return 1 if frozenset((home, node.host.name)) in self._links else 2

        if with_room:
            chosen = min(with_room, key=lambda n: (distance(n), -n.room))
        else:
            chosen = min(self._shared(able, "an actor"), key=lambda n: (n.load, distance(n)))
        cores = chosen.least_loaded(1)
        chosen.take(cores, 1.0)
        if chosen.host.name != home:
            self.link(home, chosen.host.name)
        return chosen.host.name, cores

    def evaluator(self, home: str) -> str:
        """Node of the evaluator: `home` where it may be there, else the emptiest node that may hold it."""
        able = self._open(Role.EVALUATOR)
        return home if not able else min(able, key=lambda n: (n.host.name != home, n.load)).host.name

    def floating(self, node: str) -> tuple[int, ...]:
        """Cores for something light: those that nobody has, else those without a learner, else all."""
        return self._nodes[node].floating()

    def share(self, node: str) -> float:
        """What part of a core an actor gets there."""
        return self._nodes[node].share()

    def oversubscription(self, node: str, light: float) -> float:
        """Core shares charged per core there is, `light` among them; 0 where nothing heavy has to share."""
        found = self._nodes[node]
        cores = len(found.host.cores)
        return round((found.demand + light) / cores, 6) if found.demand > cores else 0.0

    def _open(self, role: Role) -> list[_Node]:
        return [n for n in self._nodes.values() if n.host.name not in self._closed and n.host.cores and n.may(role)]

    def _shared(self, able: list[_Node], what: str) -> list[_Node]:
        shareable = [node for node in able if self._oversubscribe and node.load < MOST_PER_CORE]
        if shareable:
            return shareable
        used = ", ".join(f"{n.host.name} {n.demand:g} of {len(n.host.cores)}" for n in able[:6])
        raise NoRoomError(f"no core is free for {what} (in use: {used}{', …' if len(able) > 6 else ''})")


class _Node:
    """One node's cores and how much they carry."""

    def __init__(self, host: HostPlan) -> None:
        self.host = host
        self.demand = 0.0  #: whole cores charged for
        self.learners = 0
        self._heavy = dict.fromkeys(host.cores, 0.0)
        self._light = dict.fromkeys(host.cores, 0.0)
        self._trained_on: set[int] = set()  #: cores with a learner

    def may(self, role: Role) -> bool:
        """A learner's buffer is where the learner is; the roles of a node do not speak of it."""
        return not self.host.roles or role in self.host.roles

    @property
    def room(self) -> float:
        return len(self.host.cores) - self.demand

    @property
    def load(self) -> float:
        return self.demand / len(self.host.cores) if self.host.cores else inf

    def count(self, placement: Placement) -> None:
        if placement.role is Role.LEARNER:
            self.take(placement.cores, float(placement.threads), learners=1)
        elif placement.role is Role.ACTOR:
            self.take(placement.cores, 1.0)
        else:
            for core in placement.cores:
                self._light[core] = self._light.get(core, 0.0) + placement.core_share / len(placement.cores)

    def take(self, cores: Sequence[int], charge: float, *, learners: int = 0) -> None:
        self.demand += charge
        self.learners += learners
        for core in cores:
            self._heavy[core] = self._heavy.get(core, 0.0) + charge / len(cores)
        if learners:
            self._trained_on.update(cores)

    def least_loaded(self, count: int) -> tuple[int, ...]:
        """Where there is a choice, not a learner's core: it should never wait for its actors."""
        order = {core: position for position, core in enumerate(self.host.cores)}

        def burden(core: int) -> tuple[bool, float, float, int]:
            return core in self._trained_on, self._heavy[core], self._light[core], order[core]

        return tuple(sorted(sorted(self.host.cores, key=burden)[:count]))

    def floating(self) -> tuple[int, ...]:
        spare = tuple(core for core in self.host.cores if not self._heavy[core])
        return spare or tuple(core for core in self.host.cores if core not in self._trained_on) or self.host.cores

    def share(self) -> float:
        if self.room >= 0:
            return 1.0
        for_actors = len(self.host.cores) - len(self._trained_on)
        actors = self.demand - len(self._trained_on)
        if for_actors < 1 or actors < 1:
            return round(len(self.host.cores) / self.demand, 6)
        return round(min(1.0, for_actors / actors), 6)
