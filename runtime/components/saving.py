"""A component's part in a checkpoint: its shard, and the word that it is written."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from runtime.checkpoint.errors import CheckpointError
from runtime.checkpoint.names import partial_folder
from runtime.contract.states import PHASES, Phase

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.memory.block import StatsBlock

_log = logging.getLogger(__name__)


class Saveable(Protocol):
    """A component that can write its shard."""

    name: str

    def save(self, folder: Path) -> None:
        """Write `<name>.safetensors` and `<name>.json` into `folder`; CheckpointError where that fails."""


def save_part(component: Saveable, checkpoints: Path, step: int, block: StatsBlock) -> None:
    """Write the shard of checkpoint `step`, then say so in the block.

    A shard that cannot be written costs the checkpoint (a note beside the shards says why), not the component.
    """
    before, block.phase = block.phase, PHASES.index(Phase.CHECKPOINT)
    block.beat()
    try:
        component.save(partial_folder(checkpoints, step))
    except CheckpointError as error:
        _log.warning("checkpoint.failed component=%s step=%d: %s", component.name, step, error)
    finally:
        block.phase = before
        block.beat()
    block.checkpoint_done = step
