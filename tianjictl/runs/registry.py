"""The runs this operator has started: one folder each, found by id, by a beginning of it, by name, or the newest."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.paths import RunPaths, runs_home
from runtime.contract.record import CompletionRecord, RunRecord
from tianjictl.errors import Locked, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.contract.record import NodeRecord

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Run:
    """One run folder as it lies on disk; nothing here asks the processes of the run."""

    paths: RunPaths
    record: RunRecord | None  #: none where run.json is missing or unreadable

    @property
    def run_id(self) -> str:
        return self.paths.run_id

    @property
    def name(self) -> str:
        """The job's name, read off the id where there is no record."""
        return self.record.name if self.record else self.run_id.rsplit("-", 3)[0]

    @property
    def attempt(self) -> int:
        return self.record.attempt if self.record else 1

    @property
    def created_at(self) -> datetime:
        return self.record.created_at if self.record else _EPOCH

    @property
    def nodes(self) -> tuple[NodeRecord, ...]:
        """Its nodes; none where it runs on the operator's machine alone."""
        return self.record.nodes if self.record else ()

    @property
    def head(self) -> NodeRecord | None:
        """The node with the coordinator, where there are nodes."""
        return next((node for node in self.nodes if self.record and node.name == self.record.head), None)

    @property
    def others(self) -> tuple[NodeRecord, ...]:
        """Its nodes but for the head."""
        return tuple(node for node in self.nodes if node != self.head)

    def completion(self) -> CompletionRecord | None:
        """How the current attempt ended, if it has; a record of an earlier attempt does not count."""
        try:
            found = CompletionRecord.model_validate_json(self.paths.completion.read_bytes())
        except (OSError, ValidationError):
            return None
        return found if found.attempt >= self.attempt else None

    def agent_pid(self) -> int | None:
        """The pid of the run's head agent while it lives, else none."""
        if not _is_locked(self.paths.agent_lock):
            return None
        try:
            pid = int(self.paths.agent_lock.read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None
        return pid if _exists(pid) else None

    def being_started(self) -> bool:
        """Whether a `launch` or `resume` is at work on this folder right now."""
        return _is_locked(self.paths.root)

    def alive(self) -> bool:
        """Whether anything of this run is at work here: its agent, or a launcher that is starting one."""
        return self.agent_pid() is not None or self.being_started()


def open_run(root: Path) -> Run:
    """The run in folder `root`."""
    try:
        record = RunRecord.model_validate_json((RunPaths(root).record).read_bytes())
    except (OSError, ValidationError):
        record = None
    return Run(RunPaths(root), record)


def list_runs(home: Path | None = None) -> list[Run]:
    """All runs, newest first. A folder without any file of a run is not one."""
    folder = home or runs_home()
    try:
        roots = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageProblem(
            f"the runs in {folder} cannot be looked at: {error.strerror or error}",
            hint="set TIANJICTL_HOME to the folder that they were started with",
        ) from error
    found = [open_run(root) for root in roots]
    known = [run for run in found if run.record or run.paths.view.exists() or run.paths.job.exists()]
    return sorted(known, key=lambda run: (run.created_at, run.run_id), reverse=True)


def find_run(wanted: str | None, home: Path | None = None) -> Run:
    """The run meant by `wanted`: its id, a unique beginning of it, or a job's name (its newest run); else the newest.

    UsageProblem where there is no such run, or more than one begins so.
    """
    runs = list_runs(home)
    if not runs:
        raise UsageProblem(f"there are no runs in {home or runs_home()}", hint="tianjictl launch JOB")
    if wanted is None:
        return runs[0]
    for run in runs:
        if run.run_id == wanted:
            return run
    named = [run for run in runs if run.name == wanted]
    if named:
        return named[0]
    beginning = [run for run in runs if run.run_id.startswith(wanted)]
    if len(beginning) == 1:
        return beginning[0]
    if beginning:
        shown = ", ".join(run.run_id for run in beginning[:5])
        raise UsageProblem(f"{wanted!r} is the beginning of {len(beginning)} runs: {shown}", hint="tianjictl runs")
    near = get_close_matches(wanted, [name for run in runs for name in (run.run_id, run.name)], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? `tianjictl runs` lists them all" if near else "tianjictl runs"
    raise UsageProblem(f"no run is called {wanted!r}", hint=hint)


def live_run_named(name: str, home: Path | None = None) -> Run | None:
    """The living run of this name, if there is one; one that has noted its end is only leaving."""
    namesakes = (run for run in list_runs(home) if run.name == name and run.completion() is None)
    return next((run for run in namesakes if run.alive() or _lives_elsewhere(run)), None)


def _lives_elsewhere(run: Run) -> bool:
    """Whether the agent of a run lives on another machine; no where nobody answers for it."""
    if not run.nodes:
        return False
    from runtime.contract.relay import RelayQuestion
    from tianjictl.errors import TianjiError
    from tianjictl.runs.access import head_place

    place = head_place(run)
    try:
        answer = None if place is None else place.ask(RelayQuestion(status=True))
    except TianjiError:
        return False
    return answer is not None and answer.completion is None and answer.agent_pid is not None


@contextmanager
def folder_lock(folder: Path, *, what: str, wait: bool = False) -> Iterator[None]:
    """Hold `folder`; the lock goes with the process and leaves no file. Locked where another process has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise Locked(
                f"another tianjictl is at work on {what}", hint="wait for it, then run this command again"
            ) from error
        yield
    finally:
        os.close(descriptor)


def _is_locked(path: Path) -> bool:
    """Whether some process holds an exclusive lock on `path`; asks with a shared one, let go at once."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
