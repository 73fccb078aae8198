"""The control block: what the agent wants of every component of its node. One writer, many readers, no messages."""

from __future__ import annotations

from enum import IntEnum

from runtime.memory.fence import fence
from runtime.memory.segment import Segment

CONTROL_BYTES = 4096

_COMMAND, _CHECKPOINT_REQUEST, _STOP_AFTER, _PAUSE, _ENV_STEPS, _ORPHANED = range(6)


class Command(IntEnum):
    """What components are told to do."""

    NONE = 0
    STOP = 1  #: leave now, in good order


class ControlBlock:
    """Named words over a zeroed segment of CONTROL_BYTES; each is one aligned 8-byte load or store."""

    def __init__(self, segment: Segment) -> None:
        self._words = segment.words(0, 6)

    @property
    def command(self) -> int:
        """A `Command`."""
        return self._words[_COMMAND]

    @command.setter
    def command(self, command: int) -> None:
        self._words[_COMMAND] = command

    @property
    def checkpoint_request(self) -> int:
        """Number of the newest checkpoint asked for, 0 for none; only rises. What was set before it is seen with it."""
        request = self._words[_CHECKPOINT_REQUEST]
        fence()  # after this load: `stop_after_checkpoint` is read as it was when the request was raised, or newer
        return request

    @checkpoint_request.setter
    def checkpoint_request(self, request: int) -> None:
        if request < self._words[_CHECKPOINT_REQUEST]:
            raise ValueError(
                f"checkpoint request {request} after {self._words[_CHECKPOINT_REQUEST]}: requests only rise"
            )
        fence()  # before this store: see the getter
        self._words[_CHECKPOINT_REQUEST] = request

    @property
    def stop_after_checkpoint(self) -> bool:
        """Leave once the requested checkpoint is written. Set it before `checkpoint_request`."""
        return bool(self._words[_STOP_AFTER])

    @stop_after_checkpoint.setter
    def stop_after_checkpoint(self, stop: bool) -> None:
        self._words[_STOP_AFTER] = stop

    @property
    def pause(self) -> bool:
        """Produce and train nothing for now; keep beating."""
        return bool(self._words[_PAUSE])

    @pause.setter
    def pause(self, pause: bool) -> None:
        self._words[_PAUSE] = pause

    @property
    def global_env_steps(self) -> int:
        """Environment steps of the whole run, for schedules."""
        return self._words[_ENV_STEPS]

    @global_env_steps.setter
    def global_env_steps(self, steps: int) -> None:
        self._words[_ENV_STEPS] = steps

    @property
    def orphaned(self) -> bool:
        """The agent has lost its coordinator for longer than it may."""
        return bool(self._words[_ORPHANED])

    @orphaned.setter
    def orphaned(self, orphaned: bool) -> None:
        self._words[_ORPHANED] = orphaned
