"""Which nodes and links a run has, and what has to be sent to bring them together. Glue: `nodes` and `links` decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.control import links as linking
from runtime.control import nodes as noding
from runtime.control.links import Link
from runtime.control.nodes import Change, Heard, Node, NodeState, Renewed, Went

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runtime.contract.messages import Report
    from runtime.contract.plan import Plan

Pair = tuple[str, str]


class Membership:
    """All nodes of the plan, and those that are on their way out of it; a link for each pair that tells of one."""

    def __init__(self, plan: Plan, kept: Iterable[Node], *, now: float) -> None:
        """`kept` is what a coordinator before this one knew of nodes."""
        self._nodes = {node.name: node.expected(now) for node in kept}
        self._links: dict[Pair, Link] = {}
        self._told: dict[str, frozenset[str]] = {}  # node → peers of its newest report
        self.revise(plan)

    def revise(self, plan: Plan) -> None:
        """Another plan holds. Nodes that it has dropped are kept until they are forgotten."""
        self._order = [host.name for host in plan.hosts]
        self._head = plan.head
        for name in self._order:
            if name not in self._nodes:
                self._nodes[name] = Node(name=name, limit_s=plan.job.health.node)

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self._nodes

    @property
    def links(self) -> Mapping[Pair, Link]:
        """By their ends; the one that opens the port comes first."""
        return self._links

    def knows(self, node: str) -> bool:
        return node in self._nodes

    def departing(self) -> list[str]:
        """Nodes that are there and that the plan has dropped."""
        return [name for name in self._nodes if name not in self._order]

    def connected(self) -> list[str]:
        """Nodes that are there."""
        return [name for name, node in self._nodes.items() if node.connected]

    def others(self) -> list[str]:
        """Nodes that are there, the head aside."""
        return [name for name in self.connected() if name != self._head]

    def lost(self) -> dict[str, str]:
        """Nodes of the plan that are lost, and why. The head is never: this process runs there."""
        return {
            name: node.reason
            for name, node in self._nodes.items()
            if node.state is NodeState.LOST and name in self._order and name != self._head
        }

    def lost_for(self, name: str, now: float) -> float:
        """Seconds since a node counts as lost; 0 where it does not."""
        lost_at = self._nodes[name].lost_at
        return 0.0 if lost_at is None else now - lost_at

    def heard(self, name: str, event: Heard, now: float) -> tuple[list[Change], list[linking.Effect]]:
        """A word from a node that this knows."""
        self._nodes[name], changes = noding.step(self._nodes[name], event, now=now)
        return changes, self._consequences(changes, now)

    def is_former(self, name: str, instance: str) -> bool:
        """Whether this life of the node's agent has been followed by another."""
        return instance in self._nodes[name].former

    def reported(self, report: Report, now: float) -> list[linking.Effect]:
        """What a node says of its links."""
        effects: list[linking.Effect] = []
        before = self._told.get(report.node, frozenset())
        told = self._told[report.node] = frozenset(link.peer for link in report.links) & self._nodes.keys()
        for link in report.links:
            if link.peer in told:
                effects += self._feed(self._pair(report.node, link.peer), linking.Reported(report.node, link), now)
        for peer in before - told:
            if report.node not in self._told.get(peer, frozenset()):
                self._links.pop(self._pair(report.node, peer), None)
        return effects

    def tick(self, now: float) -> tuple[list[Change], list[linking.Effect]]:
        """Time has passed."""
        changes: list[Change] = []
        for name in self._nodes:
            self._nodes[name], new = noding.step(self._nodes[name], noding.Tick(), now=now)
            changes += new
        effects = self._consequences(changes, now)
        for pair in tuple(self._links):
            effects += self._feed(pair, linking.Tick(), now)
        return changes, effects

    def forget(self, name: str) -> None:
        """A node that the plan has dropped is out of it."""
        self._nodes.pop(name, None)
        self._told.pop(name, None)
        # Others may not have closed their ends yet; when they do, there is no link any more that it would end.
        self._told = {node: peers - {name} for node, peers in self._told.items()}
        for pair in [pair for pair in self._links if name in pair]:
            del self._links[pair]

    def _pair(self, first: str, second: str) -> Pair:
        order = {name: position for position, name in enumerate((*self._order, *self.departing()))}
        return (first, second) if order[first] < order[second] else (second, first)

    def _consequences(self, changes: list[Change], now: float) -> list[linking.Effect]:
        effects: list[linking.Effect] = []
        for change in changes:
            if not isinstance(change, Went | Renewed):
                continue
            self._told.pop(change.node, None)
            event = linking.Gone(change.node) if isinstance(change, Went) else linking.Renewed(change.node)
            for pair in [pair for pair in self._links if change.node in pair]:
                other = pair[0] if pair[1] == change.node else pair[1]
                if change.node in self._told.get(other, frozenset()):
                    effects += self._feed(pair, event, now)
                else:
                    del self._links[pair]  # neither of its ends is there to tell of it
        return effects

    def _feed(self, pair: Pair, event: linking.Event, now: float) -> list[linking.Effect]:
        link = self._links.get(pair) or Link(accepts=pair[0], connects=pair[1])
        self._links[pair], effects = linking.step(link, event, now=now)
        return effects
