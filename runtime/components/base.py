"""What a component is: a plain object with three verbs. The process around it is the driver's business."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Progress(Enum):
    """What one `tick` achieved."""

    WORKED = "worked"  #: call again at once
    IDLE = "idle"  #: nothing to do until one of `waits()` is readable or a moment has passed
    DONE = "done"  #: this component has finished for good


class Component(Protocol):
    """Actor, buffer, learner or evaluator. The driver calls start, then tick until DONE or told to stop, then stop.

    One thread calls everything. `tick` does a bounded amount of work and never blocks on another component.
    """

    name: str

    def start(self) -> None:
        """Build what is needed (environment, networks); may take seconds."""

    def tick(self) -> Progress:
        """Do a bounded amount of work."""

    def stop(self) -> None:
        """Let go of everything; called once, also after an error in `tick`."""

    def waits(self) -> Sequence[int]:
        """File descriptors worth waking for when `tick` was idle; the driver drains eventfds it waited on."""
