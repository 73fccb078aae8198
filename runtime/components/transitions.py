"""From a fragment to the transitions that a replay memory holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from runtime.algorithms.returns import n_step

if TYPE_CHECKING:
    from runtime.models.arrays import Array, Columns


def finite_rows(rows: Columns) -> Array:
    """Which transitions are all numbers [N]: neither reward nor observation is NaN or infinite."""
    finite_N: Array = np.isfinite(rows["ret"])
    for name in ("obs", "next_obs"):
        if rows[name].dtype.kind == "f":
            finite_N &= np.isfinite(rows[name]).reshape(len(finite_N), -1).all(axis=1)
    return finite_N


def transitions(fragment: Columns, *, steps: int, gamma: float) -> dict[str, Array]:
    """The valid cells of a fragment, row by row, as n-step transitions [N, …] in the order of time."""
    valid_TB = fragment["valid"]
    target = n_step(
        fragment["reward"],
        fragment["next_obs"],
        fragment["terminated"],
        fragment["truncated"],
        valid_TB,
        gamma=gamma,
        steps=steps,
    )
    version_TB = np.broadcast_to(fragment["version"][:, None], valid_TB.shape)
    return {
        "obs": fragment["obs"][valid_TB],
        "action": fragment["action"][valid_TB],
        "ret": target.ret_TB[valid_TB],
        "discount": target.discount_TB[valid_TB],
        "next_obs": target.next_obs_TB[valid_TB],
        "version": version_TB[valid_TB],
    }
