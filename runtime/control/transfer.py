"""What of a checkpoint's files is sent next to one receiver. Pure: names, sizes and offsets, no bytes.

One file at a time, in parts, a few of them unanswered. When the connection was lost the file is sent anew from its
beginning: nobody knows which of the unanswered parts arrived. Answers to parts sent before that can do no harm: they
only exist for parts that the receiver took in their order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.contract.messages import Part

if TYPE_CHECKING:
    from runtime.contract.messages import PartTaken

PART_BYTES = 256 << 10  #: small enough that on a slow line heartbeats pass between two of them
WINDOW = 4  #: parts that may be unanswered
STALLED_AFTER_S = 5.0  #: unanswered for so long: begin the file again


@dataclass(slots=True)
class Transfer:
    """Files of checkpoint `step`, in the order in which they go."""

    step: int
    files: deque[tuple[str, int]] = field(default_factory=deque)  #: names and sizes in bytes; the first is on its way
    _at: int = 0
    _sent: bool = False  # to its end
    _unanswered: set[int] = field(default_factory=set)
    _moved_at: float = 0.0

    def add(self, name: str, size: int) -> None:
        """One file more."""
        self.files.append((name, size))

    def next(self) -> Part | None:
        """The part to be sent now, if any; call `sent` once it is."""
        if not self.files or self._sent or len(self._unanswered) >= WINDOW:
            return None
        name, size = self.files[0]
        ends = self._at + PART_BYTES >= size
        return Part(step=self.step, name=name, offset=self._at, size=size, last=ends and len(self.files) == 1)

    def sent(self, part: Part, now: float) -> None:
        """`part` is on its way."""
        if not self._unanswered:
            self._moved_at = now
        self._unanswered.add(part.offset)
        self._at = part.offset + PART_BYTES
        self._sent = self._at >= part.size

    def taken(self, answer: PartTaken, now: float) -> str | None:
        """The receiver has taken a part; returns the name of the file which it now holds whole, if it does."""
        if not self.files or answer.name != self.files[0][0] or answer.offset not in self._unanswered:
            return None
        self._unanswered.remove(answer.offset)
        self._moved_at = now
        return self.drop() if self._sent and not self._unanswered else None

    def refused(self, answer: PartTaken) -> None:
        """The receiver will not have the file: go on with the next one."""
        if self.files and answer.name == self.files[0][0]:
            self.drop()

    def drop(self) -> str:
        """Be done with the file that is on its way."""
        self.restart()
        return self.files.popleft()[0]

    def restart(self) -> None:
        """Send the file that is on its way from its beginning."""
        self._at, self._sent = 0, False
        self._unanswered.clear()

    def stalled(self, now: float) -> bool:
        """Whether answers have been due for too long."""
        return bool(self._unanswered) and now - self._moved_at > STALLED_AFTER_S
