"""The control block: what the agent wants of every component of its node. One writer, many readers, no messages."""

from __future__ import annotations

from enum import IntEnum

from runtime.memory.segment import Segment

CONTROL_BYTES = 4096

_COMMAND, _CHECKPOINT_REQUEST, _BASE_ENV_STEPS, _PAUSE, _ENV_STEPS = range(5)


class Command(IntEnum):
    """What components are told to do."""

    NONE = 0
    STOP = 1  #: leave now, in good order


class ControlBlock:
    """Named words over a zeroed segment of CONTROL_BYTES; each is one aligned 8-byte load or store."""

    def __init__(self, segment: Segment) -> None:
        self._words = segment.words(0, 5)

    @property
    def command(self) -> int:
        """A `Command`."""
        return self._words[_COMMAND]

    @command.setter
    def command(self, command: int) -> None:
        self._words[_COMMAND] = command

    @property
    def checkpoint_request(self) -> int:
        """Number of the newest checkpoint asked for, 0 for none; only rises."""
        return self._words[_CHECKPOINT_REQUEST]

    @checkpoint_request.setter
    def checkpoint_request(self, request: int) -> None:
        if request < self._words[_CHECKPOINT_REQUEST]:
            raise ValueError(
                f"checkpoint request {request} after {self._words[_CHECKPOINT_REQUEST]}: requests only rise"
            )
        self._words[_CHECKPOINT_REQUEST] = request

    @property
    def pause(self) -> bool:
        """Produce and train nothing for now; keep beating."""
        return bool(self._words[_PAUSE])

    @pause.setter
    def pause(self, pause: bool) -> None:
        self._words[_PAUSE] = pause

    @property
    def global_env_steps(self) -> int:
        """Environment steps of the whole run, as the coordinator last told them."""
        return self._words[_ENV_STEPS]

    @global_env_steps.setter
    def global_env_steps(self, steps: int) -> None:
        self._words[_ENV_STEPS] = steps

    @property
    def base_env_steps(self) -> int:
        """Environment steps that earlier attempts of the run had made; set once, before any component starts."""
        return self._words[_BASE_ENV_STEPS]

    @base_env_steps.setter
    def base_env_steps(self, steps: int) -> None:
        self._words[_BASE_ENV_STEPS] = steps
