"""Handing a checkpoint's shards to fresh components, also when the shape has changed.

Learners: learner i takes learner (i mod saved)'s shard. Replay memories: all saved transitions, oldest first, are dealt
out anew over the buffers of the new shape. Fragments that were in flight at the cut are gone; the ledger says so.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from runtime.checkpoint.shard import load_shard
from runtime.contract.states import Role

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runtime.components.learner import Learner
    from runtime.contract.plan import Plan

_POSITION, _SIZE, _INSERTED = range(3)


def resumed_env_steps(folder: Path | None) -> int:
    """Env steps of the run at the checkpoint, 0 without one."""
    if folder is None:
        return 0
    return int(json.loads((folder / "manifest.json").read_text())["counters"]["env_steps"])


def saved(folder: Path, role: Role) -> list[str]:
    """Names of the saved components of a role, by index."""
    return sorted((path.stem for path in folder.glob(f"{role}-*.json")), key=lambda name: int(name.rpartition("-")[2]))


def restore_learner(folder: Path, plan: Plan, index: int, learner: Learner) -> None:
    """Parameters, optimiser, target; and counters, of which a learner of another shape takes its share of the sum."""
    shards = saved(folder, Role.LEARNER)
    learners = len(plan.of_role(Role.LEARNER))
    arrays, meta = load_shard(folder, shards[index % len(shards)])
    if len(shards) != learners:
        metas = [load_shard(folder, name)[1] for name in shards]
        meta = {
            key: share(sum(int(one[key]) for one in metas), learners, index) for key in ("updates", "samples_trained")
        }
        meta["env_steps"] = max(int(one["env_steps"]) for one in metas)
    learner.resume(arrays, meta)


def share(total: int, parts: int, index: int) -> int:
    """Part `index` of a total that is split as evenly as whole numbers allow; all parts add up to it."""
    return total // parts + (1 if index < total % parts else 0)


def restore_replay(
    folder: Path, plan: Plan, group: int, memory: Mapping[str, np.ndarray], rng: np.random.Generator
) -> None:
    """Fill an empty replay memory with this group's share of all saved transitions, and go on with its stream."""
    groups = len(plan.of_role(Role.LEARNER))
    shards = [load_shard(folder, name) for name in saved(folder, Role.BUFFER)]
    parts = [(arrays, _in_order(arrays["cursor"])) for arrays, _ in shards]
    inserted = sum(int(arrays["cursor"][_INSERTED]) for arrays, _ in parts)
    trained = sum(int(arrays["trained"][0]) for arrays, _ in parts)
    held = 0
    for name, array in memory.items():
        if name in ("cursor", "taken", "trained"):
            continue
        rows = np.concatenate([arrays[name][order][group::groups] for arrays, order in parts])[-len(array) :]
        array[: len(rows)] = rows
        held = len(rows)
    capacity = len(memory["action"])
    memory["generation"][:held] = np.arange(held)
    memory["cursor"][:] = (held % capacity, held, max(held, inserted // groups))
    memory["trained"][0] = trained // groups
    if group < len(shards):
        rng.bit_generator.state = shards[group][1]["random_stream"]


def _in_order(cursor: np.ndarray) -> np.ndarray:
    """Rows of a saved memory from the oldest to the newest."""
    size = int(cursor[_SIZE])
    begin = int(cursor[_POSITION]) % size if size else 0
    return (np.arange(size) + begin) % size if size else np.arange(0)
