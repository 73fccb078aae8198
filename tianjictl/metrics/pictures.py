"""Which runs are shown as metrics, and what is known of each: asked anew at every scrape, within its time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tianjictl.errors import TianjiError
from tianjictl.runs.client import observe
from tianjictl.runs.registry import find_run, list_runs

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tianjictl.runs.client import Picture
    from tianjictl.runs.registry import Run

KEEP_S = 600.0  #: how long a run that is over is shown, so that its last numbers are surely read
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Shown:
    """One run, with what is known of it; `picture` is none where that was not found out in time."""

    run_id: str
    name: str
    user: str
    head: str
    picture: Picture | None


class Observer:
    """Looks at runs; one look at a time, and never two questions to one run at once."""

    def __init__(self, wanted: str | None = None, *, keep_s: float = KEEP_S) -> None:
        """`wanted` as in `find_run`, resolved anew at each look; none: all runs that go on or have just ended."""
        self._wanted = wanted
        self._keep_s = keep_s
        self._over: set[tuple[str, int]] = set()
        self._asked: dict[str, Future[Picture]] = {}
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="observe")
        self._lock = threading.Lock()

    def look(self, within_s: float) -> list[Shown]:
        """The runs by id, each with what could be found out within `within_s`."""
        with self._lock:
            runs = self._runs()
            self._asked = asked = {run.run_id: self._ask(run) for run in runs}
            wait(asked.values(), within_s)
            shown = [_shown(run, asked[run.run_id]) for run in runs]
        return sorted((each for each in shown if not self._is_history(each)), key=lambda each: each.run_id)

    def close(self) -> None:
        """Ask no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _runs(self) -> list[Run]:
        if self._wanted is not None:
            return [find_run(self._wanted)]
        runs = [run for run in list_runs() if (run.run_id, run.attempt) not in self._over]
        oldest = datetime.now(UTC).timestamp() - self._keep_s
        going_on = []
        for run in runs:
            completion = run.completion()
            if completion is not None and completion.ended_at.timestamp() < oldest:
                self._over.add((run.run_id, run.attempt))
            else:
                going_on.append(run)
        return going_on

    def _ask(self, run: Run) -> Future[Picture]:
        """The question that is still open, else a new one: an answer that came after an earlier look is old."""
        before = self._asked.get(run.run_id)
        return self._pool.submit(observe, run) if before is None or before.done() else before

    def _is_history(self, shown: Shown) -> bool:
        """Whether it was lost long ago, without a record that would say when."""
        picture = shown.picture
        return self._wanted is None and picture is not None and picture.ended and picture.age_s > self._keep_s


def _shown(run: Run, asked: Future[Picture]) -> Shown:
    try:
        picture = asked.result(timeout=0)
    except (TimeoutError, TianjiError, OSError):  # not in time, or nothing could be found out
        picture = None
    record = run.record
    head = "" if record is None else record.head or record.host
    return Shown(run.run_id, run.name, "" if record is None else record.user, head, picture)
