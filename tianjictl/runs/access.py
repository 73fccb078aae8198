"""The folders of a run on other machines: asked over SSH, one exchange for each question.

A run whose head is this machine has its folder among the operator's, and nothing of this is needed for it. For any
other run, the operator's folder holds the record, and copies of what was last heard. A connection is opened once and
kept for as long as the command lasts.
"""

from __future__ import annotations

import atexit
import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.relay import RelayAnswer, RelayQuestion
from tianjictl.errors import TianjiError
from tianjictl.remote.deadlines import Deadlines
from tianjictl.remote.failures import ConnectionLost
from tianjictl.runs.nodes import host_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.contract.record import NodeRecord
    from tianjictl.remote.base import Completed, Connection
    from tianjictl.runs.registry import Run

_DEADLINES = Deadlines(connect_s=3.0, banner_s=6.0, login_s=6.0, channel_s=6.0)  #: a person waits for the answer
_MARGIN_S = 10.0  #: for the way there and back
_ENTER = """[ -z "$1" ] || export PYTHONPATH="$1"
cd / && shift && exec "$@"
"""


class Place:
    """A run's folder on one node, reached when it is first asked."""

    def __init__(self, node: NodeRecord, connection: Connection | None = None) -> None:
        self.node = node
        self._connection = connection
        self._lent = connection is not None  #: somebody else's to close

    def ask(self, question: RelayQuestion) -> RelayAnswer:
        """Ask the folder and its coordinator; TianjiError (HostFailure) where the node cannot be asked."""
        words = ("ask", self.node.folder, question.model_dump_json(exclude_defaults=True))
        done = self.run(words, timeout_s=question.timeout_s + _MARGIN_S)
        if done.status != 0:
            raise TianjiError(f"{self.node.name}: the run's folder cannot be looked at: {done.complaint}")
        try:
            return RelayAnswer.model_validate(json.loads(done.text.splitlines()[-1]))
        except (ValueError, IndexError, ValidationError) as error:
            raise TianjiError(f"{self.node.name}: its answer makes no sense: {done.text[-200:]!r}") from error

    def run(self, words: Sequence[str], *, timeout_s: float) -> Completed:
        """`python -m runtime WORDS` on the node. A connection that has broken is opened anew, once."""
        argv = (self.node.pythonpath or "", self.node.python, "-m", "runtime", *words)
        try:
            return self.connection.run(_ENTER, *argv, timeout_s=timeout_s)
        except ConnectionLost:
            self.close()
            return self.connection.run(_ENTER, *argv, timeout_s=timeout_s)

    @property
    def connection(self) -> Connection:
        """The open connection; HostFailure where there is no way."""
        if self._connection is None:
            from tianjictl.remote.reach import reach

            self._connection = reach(host_of(self.node), deadlines=_DEADLINES)
        return self._connection

    def close(self) -> None:
        """Let go of the connection; the next question opens another."""
        connection, self._connection = self._connection, None
        lent, self._lent = self._lent, False
        if connection is not None and not lent:
            with suppress(TianjiError):
                connection.close()


_places: dict[tuple[str, str], Place] = {}


def place_of(run: Run, node: NodeRecord) -> Place:
    """The run's folder on a node, over a connection that lasts as long as this command."""
    key = (run.run_id, node.name)
    known = _places.get(key)
    if known is None or known.node != node:
        _places[key] = Place(node)
    return _places[key]


def lend(run: Run, node: NodeRecord, connection: Connection) -> None:
    """Use a connection that is open already for questions to a node, until it is closed."""
    _places[run.run_id, node.name] = Place(node, connection)


def head_place(run: Run) -> Place | None:
    """Where the run's coordinator is, if that is not the operator's own folder."""
    head = run.head
    return None if head is None or folder_here(run, head) == run.paths.root else place_of(run, head)


def folder_here(run: Run, node: NodeRecord) -> Path | None:
    """The folder of a node that is this machine; none for any other."""
    del run
    return Path(node.folder) if host_of(node).connection == "local" else None


def close_all() -> None:
    """End every connection that this command has opened."""
    while _places:
        _places.popitem()[1].close()


atexit.register(close_all)
