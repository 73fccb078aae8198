"""What the components of a node share: every ring, board, replay memory and stats block, by name; and what of it other
nodes have, too. Pure: a plan and a node in, specs out.

Names: `fragments.<actor>`, `batches.<g>`, `priorities.<g>`, `policy.<g>`, `learner-state.<g>`, `replay.<g>`,
`block.<component>`. No other module makes them. Everything of a group but its actors is on one node, its home.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from runtime.algorithms.registry import state_fields
from runtime.components.batches import batch_layout, priority_layout
from runtime.components.fragments import fragment_layout
from runtime.contract.algorithm import DqnConfig
from runtime.contract.states import Role
from runtime.memory.block import BLOCK_BYTES
from runtime.memory.board import BoardSpec
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import RingSpec
from runtime.models.spec import NetworkSpec
from runtime.replay.memory import replay_fields

if TYPE_CHECKING:
    from runtime.contract.plan import Placement, Plan

BOARD_SLOTS = 4
STATE_SLOTS = 2
STATE_MIRRORS = 1_000_000  #: numbers of mirrored state boards begin here, above those of rings and policies
MOST_ACTORS = 4096  #: that one run can ever name
PROGRESS_WORDS = 4  #: env steps, updates, samples trained, turn
LEARNER_WORDS = 5  #: updates, samples trained, env steps, turn, sequence of the last batch trained on


@dataclass(frozen=True, slots=True)
class Mirror:
    """This node's end of a ring or board that another node has, too. `number` is the same at both ends."""

    number: int
    kind: Literal["ring", "board"]
    name: str
    peer: str  #: the other node
    end: Literal["send", "receive"]


@dataclass(frozen=True, slots=True)
class Wiring:
    """The shared memory of one run on one node, and who reads and writes it."""

    components: tuple[str, ...]  #: those of this node
    rings: dict[str, RingSpec]
    boards: dict[str, BoardSpec]
    replays: dict[str, Layout]
    board_readers: dict[str, tuple[str, ...]]  #: board → who is woken by a new version: components, `courier.<peer>`
    mirrors: tuple[Mirror, ...]

    @property
    def peers(self) -> tuple[str, ...]:
        """Nodes that this one shares mirrors with."""
        return tuple(sorted({mirror.peer for mirror in self.mirrors}))

    @property
    def blocks(self) -> tuple[str, ...]:
        """Segments with a stats block: one for each component and for each courier of this node."""
        return tuple(block_of(name) for name in (*self.components, *map(courier_of, self.peers)))

    def segments(self) -> dict[str, int]:
        """Every segment but the agent's control block, with its size in bytes."""
        sizes = dict.fromkeys(self.blocks, BLOCK_BYTES)
        sizes |= {name: spec.nbytes for name, spec in self.rings.items()}
        sizes |= {name: spec.nbytes for name, spec in self.boards.items()}
        return sizes | {name: layout.nbytes for name, layout in self.replays.items()}

    def events(self) -> tuple[str, ...]:
        """Every eventfd: two a ring, one for each reader of a board."""
        names = [f"{ring}:{side}" for ring in self.rings for side in ("data", "space")]
        names += [f"{board}:{reader}" for board, readers in self.board_readers.items() for reader in readers]
        return tuple(names)


def fragments_ring(actor: str) -> str:
    return f"fragments.{actor}"


def batches_ring(group: int) -> str:
    return f"batches.{group}"


def priorities_ring(group: int) -> str:
    return f"priorities.{group}"


def policy_board(group: int) -> str:
    return f"policy.{group}"


def state_board(group: int) -> str:
    return f"learner-state.{group}"


def replay_memory(group: int) -> str:
    return f"replay.{group}"


def block_of(name: str) -> str:
    """The segment with the stats block of a component or courier."""
    return f"block.{name}"


def courier_of(peer: str) -> str:
    """The courier of a node's link to `peer`, as board reader and as component."""
    return f"courier.{peer}"


def wire(plan: Plan, node: str) -> Wiring:
    """Derive all shared memory of one node from a plan. ValueError where an actor's number is not below MOST_ACTORS."""
    if (highest := max((actor.index for actor in plan.of_role(Role.ACTOR)), default=0)) >= MOST_ACTORS:
        raise ValueError(f"actor-{highest}: a run can name {MOST_ACTORS} actors between its launch and its end")
    draft = _Draft(plan, node)
    for group in plan.groups:
        if plan.home(group) == node:
            draft.add_home(group)
        draft.add_policy(group)
        draft.add_state(group)
    for actor in plan.of_role(Role.ACTOR):
        draft.add_fragments(actor)
    return draft.finish()


class _Draft:
    """A wiring while it is made."""

    def __init__(self, plan: Plan, node: str) -> None:
        self._plan = plan
        self._node = node
        self._homes = {group: plan.home(group) for group in plan.groups}
        self._rings: dict[str, RingSpec] = {}
        self._boards: dict[str, BoardSpec] = {}
        self._replays: dict[str, Layout] = {}
        self._readers: dict[str, tuple[str, ...]] = {}
        self._mirrors: list[Mirror] = []

    def add_home(self, group: int) -> None:
        """What a group's learner and buffer share."""
        job, sizes, env = self._plan.job, self._plan.sizes, self._plan.env
        self._add_ring(batches_ring(group), batch_layout(env, sizes, job.algorithm), sizes.batch_slots)
        if isinstance(job.algorithm, DqnConfig):
            self._replays[replay_memory(group)] = replay_layout(self._plan)
            if job.algorithm.replay.kind == "proportional":
                self._add_ring(priorities_ring(group), priority_layout(sizes), 2 * sizes.batch_slots)

    def add_policy(self, group: int) -> None:
        """The board that actors, other learners and the evaluator read; only actors are woken by a new version."""
        readers = [p for p in self._plan.placements if _reads_policy(p, group)]
        nodes = {p.host for p in readers}
        woken = tuple(p.name for p in readers if p.host == self._node and p.role is Role.ACTOR)
        board = BoardSpec(policy_board(group), policy_layout(self._plan), BOARD_SLOTS)
        self._add_board(board, 2 * group + 2, self._homes[group], nodes, woken)

    def add_state(self, group: int) -> None:
        """A learner's own board, which another learner that begins with its state reads once."""
        nodes = {p.host for p in self._plan.of_role(Role.LEARNER) if p.donor == group}
        board = BoardSpec(state_board(group), state_layout(self._plan), STATE_SLOTS)
        self._add_board(board, STATE_MIRRORS + group, self._homes[group], nodes, ())

    def add_fragments(self, actor: Placement) -> None:
        """An actor's ring; where its buffer is elsewhere, one more there, with a slot for what is on its way."""
        name, number = fragments_ring(actor.name), 2 * actor.index + 1
        home = self._homes.get(actor.group, actor.host)  # an actor whose group is gone has nobody to send to
        layout = fragment_layout(self._plan.env, self._plan.sizes, self._plan.job.algorithm.name)
        if self._node == actor.host:
            self._add_ring(name, layout, self._plan.sizes.ring_slots)
            if home != actor.host:
                self._mirrors.append(Mirror(number, "ring", name, home, "send"))
        elif self._node == home:
            self._add_ring(name, layout, self._plan.sizes.ring_slots + 1)
            self._mirrors.append(Mirror(number, "ring", name, actor.host, "receive"))

    def finish(self) -> Wiring:
        components = tuple(p.name for p in self._plan.on(self._node))
        mirrors = tuple(sorted(self._mirrors, key=lambda mirror: (mirror.peer, mirror.number)))
        return Wiring(components, self._rings, self._boards, self._replays, self._readers, mirrors)

    def _add_ring(self, name: str, layout: Layout, slots: int) -> None:
        self._rings[name] = RingSpec(name, layout, slots)

    def _add_board(self, board: BoardSpec, number: int, home: str, nodes: set[str], woken: tuple[str, ...]) -> None:
        """A board of node `home` that is read on `nodes`: here, if this is one of them."""
        if self._node == home:
            peers = sorted(nodes - {home})
            self._mirrors += [Mirror(number, "board", board.name, peer, "send") for peer in peers]
            woken += tuple(courier_of(peer) for peer in peers)
        elif self._node in nodes:
            self._mirrors.append(Mirror(number, "board", board.name, home, "receive"))
        else:
            return
        self._boards[board.name] = board
        self._readers[board.name] = woken


def _reads_policy(placement: Placement, group: int) -> bool:
    if placement.role is Role.LEARNER:
        return placement.group != group
    return placement.role in (Role.ACTOR, Role.EVALUATOR) and placement.group == group


def inputs_of(plan: Plan, node: str, component: str) -> tuple[object, ...]:
    """What a component is connected to: where this changes, it ends in good order and begins anew over its memory.

    Rings, blocks and boards themselves never change: names are used once in an attempt of a run.
    """
    placement = next(p for p in plan.on(node) if p.name == component)
    if placement.role is Role.BUFFER:
        actors = plan.group_of(placement.group, Role.ACTOR)
        return (*(fragments_ring(actor.name) for actor in actors), drains(plan, placement.group))
    if placement.role is Role.LEARNER:
        peers = tuple(group for group in plan.groups if group != placement.group)
        return (peers, wire(plan, node).board_readers[policy_board(placement.group)])
    return ()


def drains(plan: Plan, group: int) -> bool:
    """Whether a group's buffer gets no more than what its actors have made already."""
    return all(actor.leaving for actor in plan.group_of(group, Role.ACTOR))


def replay_layout(plan: Plan) -> Layout:
    """The replay memory, and beside it what its buffer must know after a crash.

    `taken`: by actor index, the sequence of the next fragment to insert. `taking`: the insertion under way: actor,
    `taken` and transitions ever inserted when it is over. `trained`: samples drawn so far.
    """
    fields = replay_fields(plan.env, plan.sizes.buffer_size)
    own = (Field("taken", "int64", (MOST_ACTORS,)), Field("taking", "int64", (3,)), Field("trained", "int64", (1,)))
    return Layout((*(Field(name, spec.dtype, spec.shape) for name, spec in fields.items()), *own))


def policy_layout(plan: Plan) -> Layout:
    """Parameters as one flat vector, with the shadow beside it where the job wants one."""
    size = NetworkSpec.of(plan.env, plan.job.algorithm).layout.size
    fields = [Field("params", "float32", (size,)), Field("progress", "int64", (PROGRESS_WORDS,))]
    if plan.job.training.shadow.enabled:
        fields.append(Field("shadow", "float32", (size,)))
    return Layout(tuple(fields))


def state_layout(plan: Plan) -> Layout:
    """Everything a learner needs to go on after a crash: the algorithm's state, the shadow, its own counters."""
    saved = state_fields(plan.job.algorithm, plan.env)
    fields = [Field(name, spec.dtype, spec.shape) for name, spec in saved.items()]
    fields.append(Field("learner", "int64", (LEARNER_WORDS,)))
    if plan.job.training.shadow.enabled:
        fields.append(Field("shadow", "float32", saved["params"].shape))
    return Layout(tuple(fields))
