"""The dueling head (Wang et al. 2016): one column for the state's value, one advantage for each action."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from runtime.models.arrays import Floats


def q_values(head_N1A: Floats) -> Floats:
    """Q = V + advantage − mean advantage: [N, 1 + A] → [N, A]."""
    advantage_NA = head_N1A[:, 1:]
    q_NA: Floats = advantage_NA + (head_N1A[:, :1] - advantage_NA.mean(axis=1, keepdims=True))
    return q_NA


def head_gradient(grad_NA: Floats) -> Floats:
    """The gradient at the head's outputs from the one at its Q values: [N, A] → [N, 1 + A]."""
    total_N1 = grad_NA.sum(axis=1, keepdims=True)
    return np.concatenate([total_N1, grad_NA - total_N1 / grad_NA.shape[1]], axis=1)
