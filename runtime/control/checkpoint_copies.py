"""Copies of the run's checkpoints on nodes besides the head: who gets one, and what the event log says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.control.copies import CopySender, choose_keepers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from runtime.contract.messages import PartTaken
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Plan
    from runtime.control.event_log import EventLog


class CheckpointCopies:
    """One copy at a time for each keeper."""

    def __init__(self, paths: RunPaths, events: EventLog, send: Callable[..., bool]) -> None:
        self._events = events
        self._sender = CopySender(paths.checkpoints, send)

    @property
    def busy(self) -> bool:
        """Whether a copy is on its way."""
        return self._sender.busy

    def written(self, step: int, plan: Plan, connected: Collection[str]) -> None:
        """A checkpoint is complete at the head."""
        self._sender.start(step, choose_keepers(plan, connected, plan.job.checkpoint.copies))

    def hear(self, node: str, answer: PartTaken, now: float) -> None:
        """A keeper has taken a part of one."""
        self._sender.hear(node, answer, now)

    def look(self, lost: Collection[str], now: float) -> None:
        """Send what may be sent, and say what has ended."""
        for node in lost:
            self._sender.forget(node)
        for copied in self._sender.look(now):
            if copied.error is None:
                self._events.write(
                    "checkpoint.copied", f"checkpoint {copied.step} is held by {copied.node} too", host=copied.node
                )
            else:
                text = f"{copied.node} holds no copy of checkpoint {copied.step}: {copied.error}"
                self._events.write("checkpoint.not-copied", text, host=copied.node)

    def close(self) -> None:
        """Let go of the files that are open."""
        self._sender.close()
