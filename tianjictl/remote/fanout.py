"""The same task on many hosts: so many at a time, each with its own outcome, none waiting for another."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from tianjictl.errors import TianjiError
from tianjictl.remote.failures import CommandTimedOut, HostFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

H = TypeVar("H")
T = TypeVar("T")

_LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Ok(Generic[T]):
    """A host's task came to `value`."""

    value: T
    tries: int
    took_s: float


@dataclass(frozen=True, slots=True)
class Err:
    """A host's task failed, after so many tries."""

    error: TianjiError
    tries: int
    took_s: float


@dataclass(frozen=True, slots=True)
class Limits:
    """How many at a time, how long, how often."""

    parallel: int = 16
    per_lane: int = 8  #: of hosts behind one bastion
    host_s: float = 90.0  #: for one host with all its tries; then it counts as failed, whatever it still does
    tries: int = 4  #: only failures that may pass are tried again
    first_wait_s: float = 0.25  #: before the second try; doubles with each further one
    longest_wait_s: float = 4.0


def wait_before(attempt: int, limits: Limits, chance: float) -> float:
    """Seconds before try number `attempt` (2, 3, …); `chance` in [0, 1) spreads hosts that failed together."""
    longest = min(limits.longest_wait_s, limits.first_wait_s * 2.0 ** (attempt - 2))
    return longest * (0.5 + chance / 2)


def fan_out(
    hosts: Mapping[str, H],
    task: Callable[[H], T],
    *,
    limits: Limits | None = None,
    lane: Callable[[H], str | None] = lambda _host: None,
    on_outcome: Callable[[str, Ok[T] | Err], None] = lambda _name, _outcome: None,
    discard: Callable[[T], None] = lambda _value: None,
    rng: random.Random | None = None,
) -> dict[str, Ok[T] | Err]:
    """Do `task` for every host, and return what came of it by name, in the order of `hosts`.

    `lane` names what hosts share (a bastion), of which only so many are reached at a time. `on_outcome` is called in
    this thread as hosts come to an end. A host that takes too long is given up and its thread left alone; should it
    still come to a value, `discard` gets it.
    """
    work = _Work(task, limits or Limits(), discard, rng or random.Random())
    waiting = deque((name, host, lane(host)) for name, host in hosts.items())
    outcomes: dict[str, Ok[T] | Err] = {}
    try:
        while waiting or work.running:
            work.start_some(waiting)
            for name, outcome in work.next_outcomes():
                outcomes[name] = outcome
                on_outcome(name, outcome)
    finally:
        work.give_up_all()
    return {name: outcomes[name] for name in hosts}


@dataclass(slots=True, eq=False)
class _Job(Generic[H]):
    name: str
    host: H
    lane: str | None
    began: float
    given_up: threading.Event = field(default_factory=threading.Event)
    posted: bool = False


class _Work(Generic[H, T]):
    def __init__(
        self, task: Callable[[H], T], limits: Limits, discard: Callable[[T], None], rng: random.Random
    ) -> None:
        self._task, self._limits, self._discard, self._rng = task, limits, discard, rng
        self._lock = threading.Lock()
        self._done: queue.SimpleQueue[tuple[_Job[H], Ok[T] | Err]] = queue.SimpleQueue()
        self.running: list[_Job[H]] = []

    def start_some(self, waiting: deque[tuple[str, H, str | None]]) -> None:
        """Start as many as may run now; those whose lane is full keep their place."""
        busy = Counter(job.lane for job in self.running)
        for _ in range(len(waiting)):
            name, host, lane = waiting.popleft()
            full = lane is not None and busy[lane] >= self._limits.per_lane
            if full or len(self.running) >= self._limits.parallel:
                waiting.append((name, host, lane))
                continue
            busy[lane] += 1
            job = _Job(name, host, lane, time.monotonic())
            self.running.append(job)
            threading.Thread(target=self._run, args=(job,), name=f"host {name}", daemon=True).start()

    def next_outcomes(self) -> list[tuple[str, Ok[T] | Err]]:
        """Wait for the next host to end, or to run out of time."""
        first = min(job.began for job in self.running) + self._limits.host_s
        while (now := time.monotonic()) < first:
            try:
                # Not for longer: a Ctrl-C that comes just before a wait begins is only seen after it.
                job, outcome = self._done.get(timeout=min(first - now, _LOOK_EVERY_S))
            except queue.Empty:
                continue
            self.running.remove(job)
            return [(job.name, outcome)]
        return self._expire(now)

    def give_up_all(self) -> None:
        with self._lock:
            for job in self.running:
                job.given_up.set()

    def _expire(self, now: float) -> list[tuple[str, Ok[T] | Err]]:
        limit_s = self._limits.host_s
        with self._lock:
            over = [job for job in self.running if now - job.began >= limit_s and not job.posted]
            for job in over:
                job.given_up.set()
        self.running = [job for job in self.running if job not in over]
        why = f"not done after {limit_s:g} s, and given up"
        return [(job.name, Err(CommandTimedOut(job.name, why), 1, now - job.began)) for job in over]

    def _run(self, job: _Job[H]) -> None:
        outcome = self._outcome(job)
        with self._lock:
            if not job.given_up.is_set():
                job.posted = True
                self._done.put((job, outcome))
                return
        if isinstance(outcome, Ok):
            self._discard(outcome.value)

    def _outcome(self, job: _Job[H]) -> Ok[T] | Err:
        attempt = 1
        while True:
            try:
                return Ok(self._task(job.host), attempt, time.monotonic() - job.began)
            except HostFailure as failure:
                error: TianjiError = failure
                wait_s = wait_before(attempt + 1, self._limits, self._rng.random())
                last = attempt >= self._limits.tries or not failure.passing
                if not last and not job.given_up.wait(wait_s):
                    attempt += 1
                    continue
            except TianjiError as problem:
                error = problem
            except Exception as surprise:  # one host's surprise must not be the end of the others: it is named
                error = TianjiError(f"{job.name}: unexpected {type(surprise).__name__}: {surprise}")
                error.__cause__ = surprise
            return Err(error, attempt, time.monotonic() - job.began)
