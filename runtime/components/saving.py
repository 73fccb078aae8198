"""A component's part in a checkpoint: its shard."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from runtime.checkpoint.errors import CheckpointError
from runtime.checkpoint.names import partial_folder
from runtime.components.base import Progress
from runtime.contract.states import PHASES, Phase

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.components.ports import BufferPorts
    from runtime.memory.block import StatsBlock
    from runtime.memory.ring import Slot

_log = logging.getLogger(__name__)


class Saveable(Protocol):
    """A component that can write its shard."""

    name: str

    def save(self, folder: Path) -> None:
        """Write `<name>.safetensors` and `<name>.json` into `folder`; CheckpointError where that fails."""


def save_part(component: Saveable, checkpoints: Path, step: int, block: StatsBlock) -> None:
    """Write the shard of checkpoint `step`. The caller then sets `block.checkpoint_done`, when its part is over.

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


def save_and_mark(buffer: Saveable, ports: BufferPorts, step: int, write_tidings: Callable[[Slot], None]) -> Progress:
    """A buffer's part: its shard, then an empty batch slot that carries the mark to the learner.

    Wherever it is killed, its successor sends the mark exactly once (`BufferPorts.finish_marker`).
    """
    slot = ports.batches.acquire()
    if slot is None:
        return Progress.IDLE
    save_part(buffer, ports.checkpoints, step, ports.block)
    write_tidings(slot)
    ports.batches.commit(0, marker=step)
    ports.block.checkpoint_done = step
    return Progress.WORKED
