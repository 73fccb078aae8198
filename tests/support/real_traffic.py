"""What really goes between an actor's node and its learner's: fragments and policies of a PPO that learns CartPole."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from runtime.contract.paths import RunPaths
from runtime.in_process import InProcessRun
from runtime.memory.board import BoardReader
from runtime.memory.layout import Layout
from runtime.memory.ring import SLOT_HEADER_BYTES, read_ledger
from runtime.wiring import fragments_ring, policy_board
from support.plans import make_job, make_plan

#: As in the example for CartPole that the project ships.
_SETTINGS = {
    "env": {"num_envs": 64},
    "algorithm": {
        "rollout": 32, "learning_rate": 4e-3, "epochs": 6, "minibatch": 256,
        "network": {"hidden": [32, 32], "activation": "tanh"},
    },
    "training": {"batch_size": 2048, "seed": 0},
}  # fmt: skip


@dataclass
class Traffic:
    """Payloads of fragments and fields of policies, in order."""

    fragment: Layout
    policy: Layout
    fragments: list[bytes] = field(default_factory=list)
    policies: list[dict[str, np.ndarray]] = field(default_factory=list)


def cartpole_traffic(folder: Path, fragments: int) -> Traffic:
    """Train until an actor has committed so many fragments."""
    run = InProcessRun(make_plan(make_job("ppo", **_SETTINGS)), RunPaths(folder))
    wiring = run.assembly.wiring
    ring, board = wiring.rings[fragments_ring("actor-0")], wiring.boards[policy_board(0)]
    memory, made = run.resources.segment(ring.name), Traffic(ring.layout, board.layout)
    reader = BoardReader(run.resources.segment(board.name), board)
    views = {part.name: np.empty(part.shape, part.dtype) for part in board.layout.fields}
    run.start()
    while len(made.fragments) < fragments:
        for component in run.components.values():
            component.tick()
            if read_ledger(memory, ring).committed > len(made.fragments):
                start = ring.slot_at(len(made.fragments)) + SLOT_HEADER_BYTES
                made.fragments.append(bytes(memory.memory[start : start + ring.layout.nbytes]))
            if (version := reader.read(views)) is not None and version >= len(made.policies):
                made.policies.append({name: array.copy() for name, array in views.items()})
    run.stop()
    return made
