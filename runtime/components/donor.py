"""A learner that joins a run begins with the state of one that is there: what it waits for, and for how long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.memory.board import BoardReader
    from runtime.memory.control import ControlBlock

PATIENCE_S = 20.0
_LOOK_EVERY_S = 0.02


class NoDonorError(RuntimeError):
    """The state to begin with has not come."""


def await_state(
    donor: BoardReader, *, control: ControlBlock, beat: Callable[[], None], clock: Callable[[], float]
) -> dict[str, np.ndarray] | None:
    """A copy of the donor's newest state; None where everybody was told to stop meanwhile.

    The board may be a mirror of one on another node, so its first version may take a moment. NoDonorError after
    PATIENCE_S without one.
    """
    state = {field.name: np.empty(field.shape, field.dtype) for field in donor.spec.layout.fields}
    deadline = clock() + PATIENCE_S
    while donor.read(state) is None:
        beat()
        if control.command:
            return None
        if clock() > deadline:
            raise NoDonorError(f"the state to begin with has not come within {PATIENCE_S:g} s: {donor.spec.name}")
        time.sleep(_LOOK_EVERY_S)
    return state
