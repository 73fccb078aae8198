"""Random streams: one per (run seed, role, index, attempt), never two alike."""

from __future__ import annotations

import numpy as np

from runtime.contract.states import Role

_ROLE_KEYS = {role: number for number, role in enumerate(Role)}


def seed_sequence(run_seed: int, role: Role, index: int, attempt: int) -> np.random.SeedSequence:
    """The root of one component life's randomness.

    Children come from `spawn` or `generate_state`. Seeds next to each other (s, s + 1) share nothing, because the
    sequence hashes its entropy and key (NumPy's SeedSequence) instead of adding to it.
    """
    return np.random.SeedSequence(entropy=run_seed, spawn_key=(_ROLE_KEYS[role], index, attempt))
