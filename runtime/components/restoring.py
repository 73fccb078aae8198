"""Handing a checkpoint's shards to fresh components, also when the shape has changed.

Learners: the i-th learner takes the (i mod saved)-th one's shard. Replay memories: all saved transitions, oldest first,
are dealt out anew over the buffers of the new shape. Fragments that were in flight at the cut are gone; the ledger says
so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.checkpoint.shard import has_shard, load_shard
from runtime.components.replay_buffer import NOT_ROWS
from runtime.contract.shape import share
from runtime.contract.states import Role
from runtime.replay.memory import INSERTED, POSITION, SIZE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runtime.components.learner import Learner
    from runtime.contract.plan import Plan


def saved(folder: Path, role: Role) -> list[str]:
    """Names of the saved components of a role, by index."""
    return sorted((path.stem for path in folder.glob(f"{role}-*.json")), key=lambda name: int(name.rpartition("-")[2]))


def restore_learner(folder: Path, plan: Plan, group: int, learner: Learner) -> None:
    """Parameters, optimiser, target; and counters, of which a learner of another shape takes its share of the sum."""
    shards = saved(folder, Role.LEARNER)
    learners, index = len(plan.groups), plan.groups.index(group)
    arrays, meta = load_shard(folder, shards[index % len(shards)])
    if len(shards) != learners:
        metas = [load_shard(folder, name)[1] for name in shards]
        meta = {
            key: share(sum(int(one[key]) for one in metas), learners, index) for key in ("updates", "samples_trained")
        }
        meta["env_steps"] = max(int(one["env_steps"]) for one in metas)
    learner.resume(arrays, meta)


def restore_replay(
    folder: Path, plan: Plan, group: int, memory: Mapping[str, np.ndarray], rng: np.random.Generator
) -> None:
    """Fill an empty replay memory with this group's share of all saved transitions, and go on with its stream."""
    groups, rank = len(plan.groups), plan.groups.index(group)
    shards = [load_shard(folder, name) for name in saved(folder, Role.BUFFER)]
    inserted = sum(int(arrays["cursor"][INSERTED]) for arrays, _ in shards)
    trained = sum(int(arrays["trained"][0]) for arrays, _ in shards)
    capacity = len(memory["action"])
    order = np.argsort(-np.concatenate([_ages(arrays["cursor"]) for arrays, _ in shards]), kind="stable")
    mine = order[rank::groups][-capacity:]
    for name, array in memory.items():
        if name not in NOT_ROWS:
            array[: len(mine)] = np.concatenate([arrays[name] for arrays, _ in shards])[mine]
    memory["generation"][: len(mine)] = np.arange(len(mine))
    memory["trained"][0] = trained // groups
    if rank < len(shards):
        rng.bit_generator.state = shards[rank][1]["random_stream"]
    # Last of all: by this a successor sees whether a life that ended meanwhile had filled the memory.
    memory["cursor"][:] = (len(mine) % capacity, len(mine), max(len(mine), inserted // groups))


def is_untouched(memory: Mapping[str, np.ndarray]) -> bool:
    """Whether nothing has been inserted or restored yet."""
    return int(memory["cursor"][INSERTED]) == 0


def restored_stream(folder: Path, actor: str) -> dict[str, Any] | None:
    """The state of an actor's random stream at the checkpoint; none if it had no such actor, or none in time."""
    return load_shard(folder, actor)[1]["action_stream"] if has_shard(folder, actor) else None


def _ages(cursor: np.ndarray) -> np.ndarray:
    """How many transitions of a saved memory are newer than each of its rows."""
    size = int(cursor[SIZE])
    return (int(cursor[POSITION]) - 1 - np.arange(size)) % max(size, 1)
