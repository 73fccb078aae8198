"""Looking many times a second at a run whose coordinator is on this machine: over one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.model import View
from runtime.contract.operator import ViewRequest, connect
from runtime.contract.view import RunView

if TYPE_CHECKING:
    import socket
    from pathlib import Path

_QUESTION = ViewRequest().model_dump_json().encode() + b"\n"
_PIECE_BYTES = 1 << 18


class _Answer(View):
    """A `Reply` with a view in it, read in one go."""

    ok: bool
    data: RunView | None = None


class Asking:
    """The coordinator behind one socket, asked for its view again and again. All of it is called from one thread."""

    def __init__(self, path: Path, within_s: float) -> None:
        self._path, self._within_s = path, within_s
        self._connection: socket.socket | None = None

    def view(self) -> RunView | None:
        """The newest view; none where nobody answers, or not in time, or with anything but a view.

        Why is not told: who gets none asks once more, as everybody does who asks only once.
        """
        try:
            answer = _Answer.model_validate_json(self._ask())
        except (OSError, ValidationError):
            self.close()
            return None
        return answer.data if answer.ok else None

    def _ask(self) -> bytes:
        connection = self._connection = self._connection or connect(self._path, self._within_s)
        connection.sendall(_QUESTION)
        answer = connection.recv(_PIECE_BYTES)
        while not answer.endswith(b"\n"):
            more = connection.recv(_PIECE_BYTES)
            if not more:
                raise ConnectionResetError("the coordinator has hung up")
            answer += more
        return answer

    def close(self) -> None:
        """Hang up; the next question opens another connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
