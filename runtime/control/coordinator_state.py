"""What the coordinator keeps in files: its own memory, the run's view, and the record of how the run ended."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.files import write_whole
from runtime.contract.model import View
from runtime.contract.record import CompletionRecord
from runtime.contract.view import Progress
from runtime.control.checkpoint_round import Round
from runtime.control.counted import Base, Memory
from runtime.control.nodes import Node
from runtime.control.rewards import RewardRecord
from runtime.control.run_state import Run

if TYPE_CHECKING:
    from runtime.contract.paths import RunPaths

log = logging.getLogger(__name__)


class CoordinatorState(View):
    """All that a coordinator which takes over from a dead one must know; agents tell the rest again."""

    attempt: int
    run: Run
    base: Base  #: of the attempt: what had been done before it
    progress: Progress = Progress()
    rewards: RewardRecord = RewardRecord()
    started_at: datetime  #: of the attempt
    elapsed_s: float = 0.0  #: of the whole run
    saved_at: datetime
    round: Round | None = None
    memory: Memory = Memory()
    nodes: tuple[Node, ...] = ()


def load_state(paths: RunPaths, attempt: int) -> CoordinatorState | None:
    """What an earlier coordinator of this attempt left; none if this is the first."""
    try:
        state = CoordinatorState.model_validate_json(paths.coordinator_state.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        log.error("coordinator.state-unreadable error=%s", error)
        return None
    return state if state.attempt == attempt else None


def save_state(paths: RunPaths, state: CoordinatorState) -> str | None:
    """Replace it whole; a full disk is logged and does not stop the run. Returns why it could not be written, if so."""
    try:
        write_whole(paths.coordinator_state, state.model_dump_json())
    except OSError as error:
        log.error("coordinator.state-unwritten error=%s", error)
        return error.strerror or str(error)
    return None


def load_completion(paths: RunPaths) -> CompletionRecord | None:
    """How an attempt of this run ended, if one has."""
    try:
        return CompletionRecord.model_validate_json(paths.completion.read_bytes())
    except FileNotFoundError:
        return None
