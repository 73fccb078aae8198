"""What a plan's components share: every ring, board and replay memory, by name. Pure: a plan in, specs out.

Names: `fragments.<actor>`, `batches.<g>`, `priorities.<g>`, `policy.<g>`, `learner-state.<g>`, `replay.<g>`. No other
module makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.algorithms.registry import state_fields
from runtime.components.batches import batch_layout, priority_layout
from runtime.components.fragments import fragment_layout
from runtime.contract.algorithm import DqnConfig
from runtime.contract.states import Role
from runtime.memory.board import BoardSpec
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import RingSpec
from runtime.models.spec import NetworkSpec
from runtime.replay.memory import replay_fields

if TYPE_CHECKING:
    from runtime.contract.plan import Plan

BOARD_SLOTS = 4
PROGRESS_WORDS = 4  #: env steps, updates, samples trained, turn
LEARNER_WORDS = 5  #: updates, samples trained, env steps, turn, sequence of the last batch trained on


@dataclass(frozen=True, slots=True)
class Wiring:
    """The shared memory of one run on one node, and who reads and writes it."""

    components: tuple[str, ...]  #: order = index of the stats block
    rings: dict[str, RingSpec]
    boards: dict[str, BoardSpec]
    replays: dict[str, Layout]
    board_readers: dict[str, tuple[str, ...]]  #: board → components that are woken by a new version

    def block_index(self, component: str) -> int:
        return self.components.index(component)

    def segments(self) -> dict[str, int]:
        """Every segment but the two of the agent, with its size in bytes."""
        sizes = {name: spec.nbytes for name, spec in self.rings.items()}
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


def wire(plan: Plan) -> Wiring:
    """Derive all shared memory from a plan."""
    rings: dict[str, RingSpec] = {}
    boards: dict[str, BoardSpec] = {}
    replays: dict[str, Layout] = {}
    readers: dict[str, tuple[str, ...]] = {}
    job, sizes, env = plan.job, plan.sizes, plan.env
    for learner in plan.of_role(Role.LEARNER):
        group = learner.group
        actors = plan.group_of(group, Role.ACTOR)
        for actor in actors:
            name = fragments_ring(actor.name)
            rings[name] = RingSpec(name, fragment_layout(env, sizes, job.algorithm.name), sizes.ring_slots)
        name = batches_ring(group)
        rings[name] = RingSpec(name, batch_layout(env, sizes, job.algorithm), sizes.batch_slots)
        if isinstance(job.algorithm, DqnConfig):
            name = replay_memory(group)
            replays[name] = replay_layout(plan, rings=len(actors))
            if job.algorithm.replay.kind == "proportional":
                name = priorities_ring(group)
                rings[name] = RingSpec(name, priority_layout(sizes), 2 * sizes.batch_slots)
        policy = policy_board(group)
        boards[policy] = BoardSpec(policy, policy_layout(plan), BOARD_SLOTS)
        readers[policy] = tuple(actor.name for actor in actors)  # peers and evaluators look when they need it
        state = state_board(group)
        boards[state] = BoardSpec(state, state_layout(plan), 2)
        readers[state] = ()
    return Wiring(tuple(p.name for p in plan.placements), rings, boards, replays, readers)


def replay_layout(plan: Plan, rings: int) -> Layout:
    """The replay memory, and beside it what its buffer must know after a crash.

    `taken`: per ring, the sequence of the next fragment to insert. `taking`: the insertion under way: ring, `taken` and
    transitions ever inserted when it is over. `trained`: samples drawn so far.
    """
    fields = replay_fields(plan.env, plan.sizes.buffer_size)
    own = (Field("taken", "int64", (rings,)), Field("taking", "int64", (3,)), Field("trained", "int64", (1,)))
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
