"""Whether a node of the run is there, decided in pure code: `step(node, event, now=…) -> (node, effects)`.

waiting → connected ⇄ lost

`now` is the coordinator's monotonic clock in seconds: no other clock judges anybody. Each turn feeds what was heard
before `Tick`, so that a node whose word has just come is never judged by the age of the one before.
"""

from __future__ import annotations

from enum import StrEnum

from runtime.contract.model import Document

RECEIVER_STALL_S = 1.0  #: a longer gap between ticks means that the coordinator itself was held up
FOUND_WITHIN_S = 2.0  #: how long agents may need to find a coordinator that follows another
_FORMER = 8  #: so many instances of a node that is begun anew are known as gone


class NodeState(StrEnum):
    """Where a node stands, as the RunView has it."""

    WAITING = "waiting"  #: not heard of yet
    CONNECTED = "connected"
    LOST = "lost"  #: not heard of for longer than `health.node`; it may well be working


class Node(Document):
    """All that is known of one node. Kept in a file, so that a coordinator that takes over knows whom to expect."""

    name: str
    limit_s: float  #: `health.node`
    state: NodeState = NodeState.WAITING
    reason: str = "not heard of yet"
    instance: str = ""  #: the life of its agent that spoke last
    former: tuple[str, ...] = ()  #: lives before that: what they still say is not heard
    revision: int = 0  #: of the plan it works by
    offset_s: float | None = None  #: its wall clock minus ours; shown, never used
    heard_at: float = 0.0
    lost_at: float | None = None
    ticked_at: float | None = None

    @property
    def connected(self) -> bool:
        return self.state is NodeState.CONNECTED

    def age_s(self, now: float) -> float | None:
        """Seconds since its last word; none before the first."""
        return None if self.state is NodeState.WAITING else max(0.0, now - self.heard_at)

    def expected(self, now: float) -> Node:
        """As a coordinator that has just begun must see it: its silence counts once it can have found the new one."""
        lost_at = None if self.lost_at is None else now
        return self.model_copy(update={"heard_at": now + FOUND_WITHIN_S, "ticked_at": None, "lost_at": lost_at})


class Heard(Document):
    """Its agent spoke. `sent_at` and `wall`: its wall clock then and ours now, where it said so."""

    instance: str = ""
    revision: int = 0
    sent_at: float = 0.0
    wall: float = 0.0


class Tick(Document):
    """Time has passed."""


class Change(Document):
    """Base of what became of a node."""

    node: str


class Came(Change):
    """Its first word."""


class Went(Change):
    """It is lost."""

    reason: str


class Returned(Change):
    """The same life of its agent speaks again: whatever it runs has been going on."""

    away_s: float


class Renewed(Change):
    """Another life of its agent speaks: whatever the one before ran is gone."""

    away_s: float


Outcome = tuple[Node, list[Change]]


def step(node: Node, event: Heard | Tick, *, now: float) -> Outcome:
    """What becomes of the node, and what there is to say and to do about it."""
    match event:
        case Heard():
            return _heard(node, event, now)
        case Tick():
            return _tick(node, now)


def _speaks(node: Node, event: Heard, now: float) -> Node:
    offset = round(event.sent_at - event.wall, 3) if event.sent_at else node.offset_s
    return node.model_copy(
        update={
            "state": NodeState.CONNECTED, "reason": "", "instance": event.instance, "revision": event.revision,
            "offset_s": offset, "heard_at": now, "lost_at": None,
        }
    )  # fmt: skip


def _heard(node: Node, event: Heard, now: float) -> Outcome:
    if event.instance in node.former:
        return node, []
    if node.state is NodeState.WAITING:
        return _speaks(node, event, now), [Came(node=node.name)]
    away_s = now - node.lost_at if node.lost_at is not None else 0.0
    after = _speaks(node, event, now)
    if event.instance != node.instance:
        former = (*node.former, node.instance)[-_FORMER:]
        return after.model_copy(update={"former": former}), [Renewed(node=node.name, away_s=away_s)]
    return after, [Returned(node=node.name, away_s=away_s)] if node.state is NodeState.LOST else []


def _tick(node: Node, now: float) -> Outcome:
    gap = now - node.ticked_at if node.ticked_at is not None else 0.0
    forgiven = gap if gap > RECEIVER_STALL_S else 0.0
    heard_at = max(node.heard_at, min(now, node.heard_at + forgiven))
    node = node.model_copy(update={"ticked_at": now, "heard_at": heard_at})
    if node.state is not NodeState.CONNECTED or now - heard_at <= node.limit_s:
        return node, []
    reason = f"no word for {now - heard_at:.1f} s, health.node is {node.limit_s:g} s"
    lost = node.model_copy(update={"state": NodeState.LOST, "reason": reason, "lost_at": now})
    return lost, [Went(node=node.name, reason=reason)]
