"""From a fragment to the transitions that the replay memory keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from runtime.algorithms.returns import n_step

if TYPE_CHECKING:
    from runtime.models.arrays import Array, Columns


def transitions(fragment: Columns, *, gamma: float, steps: int) -> dict[str, Array]:
    """The valid cells as columns obs, action, ret, discount, next_obs, version, oldest first; new arrays."""
    valid_TB = fragment["valid"]
    result = n_step(
        fragment["reward"], fragment["next_obs"], fragment["terminated"], fragment["truncated"], valid_TB,
        gamma=gamma, steps=steps,
    )  # fmt: skip
    version_TB = np.broadcast_to(fragment["version"][:, None], valid_TB.shape)
    return {
        "obs": fragment["obs"][valid_TB],
        "action": fragment["action"][valid_TB],
        "ret": result.ret_TB[valid_TB],
        "discount": result.discount_TB[valid_TB],
        "next_obs": result.next_obs_TB[valid_TB],
        "version": version_TB[valid_TB],
    }
