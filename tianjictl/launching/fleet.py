"""Open connections to the hosts of a run, and work done on all of them at once.

What may still be under way is known: whoever breaks off (Ctrl-C, a failure) waits for it before taking down, so that
nothing is started behind the back of who has just ended everything.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TypeVar

from tianjictl.errors import Finding, Interrupted, TianjiError, Unreachable
from tianjictl.remote.fanout import Err, Limits, Ok, fan_out
from tianjictl.remote.reach import lane, reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tianjictl.hosts.types import Host
    from tianjictl.remote.base import Connection
    from tianjictl.remote.deadlines import Deadlines

T = TypeVar("T")
ONCE = Limits(tries=1)  #: what must not be done twice is not tried again
_SETTLE_S = 15.0


class Fleet:
    """Connections by host name.

    `given_up` is set when the work that has begun is broken off: a task takes it along and looks at it between two
    steps. Work that begins later gets another one.
    """

    def __init__(self, hosts: Mapping[str, Host], *, deadlines: Deadlines | None = None) -> None:
        self.hosts = dict(hosts)
        self.connections: dict[str, Connection] = {}
        self.given_up = threading.Event()
        self._deadlines = deadlines
        self._busy: dict[str, int] = {}  #: tasks under way, by host
        self._changed = threading.Condition()

    def reach(self, names: Iterable[str] | None = None, *, progress: Callable[[str], None]) -> dict[str, TianjiError]:
        """Open the connections that are not open yet; the failures, by host. The others are usable all the same."""
        wanted = [name for name in (self.hosts if names is None else names) if name not in self.connections]
        notes: list[str] = []

        def outcome(name: str, came: Ok[Connection] | Err) -> None:
            if isinstance(came, Ok):
                self.connections[name] = came.value
                progress(f"{name}: reached in {came.took_s:.1f} s{_tries(came.tries)}")
            else:
                progress(f"{came.error.message}{_tries(came.tries)}")
            while notes:
                progress(notes.pop(0))

        outcomes = fan_out(
            {name: self.hosts[name] for name in wanted},
            lambda host: reach(host, deadlines=self._deadlines, note=notes.append),
            lane=lane,
            on_outcome=outcome,
            discard=lambda connection: connection.close(),
        )
        return {name: came.error for name, came in outcomes.items() if isinstance(came, Err)}

    def each(
        self,
        task: Callable[[Connection], T],
        names: Iterable[str] | None = None,
        *,
        limits: Limits = ONCE,
        done: Callable[[str, T], None] = lambda _name, _value: None,
        failed: Callable[[str, TianjiError], None] = lambda _name, _error: None,
    ) -> tuple[dict[str, T], dict[str, TianjiError]]:
        """Do `task` on every host named (all that are open); what came of it, and what failed, by host."""
        chosen = {name: self.connections[name] for name in (self.connections if names is None else names)}

        def outcome(name: str, came: Ok[T] | Err) -> None:
            if isinstance(came, Ok):
                done(name, came.value)
            else:
                failed(name, came.error)

        given_up = self.given_up
        outcomes = fan_out(
            chosen, lambda connection: self._tracked(task, connection, given_up), limits=limits, on_outcome=outcome
        )
        values = {name: came.value for name, came in outcomes.items() if isinstance(came, Ok)}
        return values, {name: came.error for name, came in outcomes.items() if isinstance(came, Err)}

    def break_off(self, timeout_s: float = _SETTLE_S) -> tuple[str, ...]:
        """Tell tasks to end and wait for them; the hosts whose task has not ended are no longer used, and named."""
        with self._changed:
            self.given_up.set()
            self.given_up = threading.Event()
            self._changed.wait_for(lambda: not self._busy, timeout_s)
            stuck = tuple(self._busy)
        for name in stuck:
            self.drop(name)
        return stuck

    def drop(self, name: str) -> None:
        """Close one host's connection and forget it."""
        connection = self.connections.pop(name, None)
        if connection is not None:
            with suppress(TianjiError):
                connection.close()

    def close(self) -> None:
        """Close all connections; what runs on hosts by `run` ends with them."""
        for name in list(self.connections):
            self.drop(name)

    def _tracked(self, task: Callable[[Connection], T], connection: Connection, given_up: threading.Event) -> T:
        name = connection.host
        with self._changed:
            if given_up.is_set():
                raise Interrupted(f"{name}: not begun: the work was broken off")
            self._busy[name] = self._busy.get(name, 0) + 1
        try:
            return task(connection)
        finally:
            with self._changed:
                self._busy[name] -= 1
                if not self._busy[name]:
                    del self._busy[name]
                self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def of_all(failures: Mapping[str, TianjiError], *, hint: str | None = None) -> TianjiError:
    """The failures of several hosts as one error, in their order. Unreachable where any host is."""
    errors = list(failures.values())
    lost = [error for error in errors if isinstance(error, Unreachable)]
    kind: type[TianjiError] = Unreachable if lost else _branch(type(errors[0]))
    findings = [Finding(error.message, error.first_hint or error.hint) for error in errors]
    told = kind.listing(findings)
    told.details += tuple(part for error in errors for part in error.details)
    told.hint = hint
    return told


def _branch(kind: type[TianjiError]) -> type[TianjiError]:
    """The error of `tianjictl.errors` that `kind` is one of: those below it are made in ways of their own."""
    return next(base for base in kind.__mro__ if base.__module__ == TianjiError.__module__)


def _tries(tries: int) -> str:
    return f" ({tries} tries)" if tries > 1 else ""
