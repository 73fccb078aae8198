"""A node's part in checkpoints whose head is elsewhere: its shards go there, copies of whole checkpoints come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.states import Role
from runtime.control.copies import CopyReceiver
from runtime.control.shipping import ShardSender

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.contract.messages import Part, PartTaken
    from runtime.contract.paths import RunPaths
    from runtime.control.component_life import Life
    from runtime.control.wire import AgentWire
    from runtime.memory.block import StatsBlock

_WITH_SHARDS = (Role.LEARNER, Role.BUFFER, Role.ACTOR)


class CheckpointTraffic:
    """Nothing here waits: parts go out and come in between other messages. `keep`: how many copies stay here."""

    def __init__(self, paths: RunPaths, wire: AgentWire, keep: int) -> None:
        self._wire = wire
        self._sender = ShardSender(paths.checkpoints, wire)
        self._receiver = CopyReceiver(paths.checkpoints, keep)

    @property
    def busy(self) -> bool:
        """Whether `look` is worth calling often."""
        return self._sender.busy or self._receiver.busy

    def send_shards(self, step: int, lives: Mapping[str, Life], blocks: Mapping[str, StatsBlock]) -> None:
        """The shards of checkpoint `step` that have been written by now; call again as more are."""
        if step:
            written = [
                name
                for name, life in lives.items()
                if life.role in _WITH_SHARDS and blocks[name].checkpoint_done >= step
            ]
            self._sender.want(step, written)

    def look(self, now: float) -> None:
        """Send what may be sent now."""
        self._sender.look(now)
        answer = self._receiver.look()
        if answer is not None:
            self._wire.send(answer)

    def take(self, part: Part, blob: bytes | None) -> None:
        """A stretch of a copy has come."""
        answer = self._receiver.take(part, blob)
        if answer is not None:
            self._wire.send(answer)

    def hear(self, taken: PartTaken, now: float) -> None:
        """The coordinator has answered a part of a shard."""
        self._sender.hear(taken, now)

    def close(self) -> None:
        """Let go of files; what is not whole is removed."""
        self._sender.close()
        self._receiver.close()
