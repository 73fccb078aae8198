"""The run folder: checked for room, reserved under a name, filled with what is to be run."""

from __future__ import annotations

import re
import secrets
import shutil
import socket
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from getpass import getuser
from typing import TYPE_CHECKING

from runtime.contract.files import write_whole
from runtime.contract.paths import RunPaths, runs_home
from runtime.contract.record import RunRecord
from tianjictl.errors import DoctorFailed, Locked
from tianjictl.runs.registry import Run, folder_lock, live_run_named
from tianjictl.state_folder import open_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from runtime.contract.plan import Plan

_SPARE_BYTES = 64 << 20  #: logs, metrics, records
_NETWORK_BYTES = 16 << 20  #: parameters and optimiser state of one learner, generously


def open_home() -> Path:
    """The folder of all runs, made if need be; UsageProblem where nothing can be written in it."""
    return open_folder(runs_home(), "runs", mode=0o700)


def check_room(plan: Plan, home: Path) -> None:
    """DoctorFailed unless the disk has room for the checkpoints that the job keeps."""
    needed, free = bytes_needed(plan), shutil.disk_usage(home).free
    if free < needed:
        raise DoctorFailed(
            f"the disk of {home} has {free / 2**20:.0f} MiB free, and this run may need {needed / 2**20:.0f} MiB "
            f"({plan.job.checkpoint.keep} checkpoints are kept)",
            hint="free some space, keep fewer checkpoints (--set checkpoint.keep=1) or set TIANJICTL_HOME elsewhere",
        )


def bytes_needed(plan: Plan) -> int:
    """An upper estimate of what the run writes: one checkpoint more than are kept, and the small files."""
    learners = plan.learners_and_actors.learners
    sample = 2 * 4 * plan.env.observation_size + 64
    buffered = 0 if plan.job.on_policy else plan.sizes.buffer_size * sample
    return _SPARE_BYTES + (plan.job.checkpoint.keep + 1) * learners * (buffered + _NETWORK_BYTES)


@contextmanager
def new_run(
    plan: Plan, *, name: str, argv: Sequence[str], version: str, resumed_from: str | None = None
) -> Iterator[Run]:
    """Make the folder of a new run and hold it until the block ends; Locked where a run of this name is alive."""
    home = open_home()
    check_room(plan, home)
    now = datetime.now(UTC)
    with ExitStack() as held:
        with folder_lock(home, what=str(home), wait=True):
            paths = _reserve(home, name, now)
            held.enter_context(folder_lock(paths.root, what=paths.run_id))
            record = RunRecord(
                run_id=paths.run_id,
                name=name,
                created_at=now,
                user=getuser(),
                host=socket.gethostname(),
                argv=tuple(hide_secrets(argv)),
                version=version,
                resumed_from=resumed_from,
            )
            _fill(paths, plan, record)
        yield Run(paths, record)


def _reserve(home: Path, name: str, now: datetime) -> RunPaths:
    taken = live_run_named(name, home)
    if taken is not None:
        raise Locked(
            f"a run named {name} is alive: {taken.run_id}",
            hint=f"tianjictl attach {taken.run_id}, tianjictl stop {taken.run_id}, or give another --name",
        )
    paths = RunPaths(home / f"{name}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}")
    paths.root.mkdir(mode=0o700)
    return paths


def _fill(paths: RunPaths, plan: Plan, record: RunRecord) -> None:
    for folder in (paths.checkpoints, paths.logs):
        folder.mkdir()
    write_whole(paths.job, plan.job.model_dump_json(indent=2) + "\n")
    write_whole(paths.plan, plan.model_dump_json(indent=2) + "\n")
    write_whole(paths.record, record.model_dump_json(indent=2) + "\n")


def begin_attempt(run: Run, plan: Plan, *, resumed_from: Path, argv: Sequence[str], version: str) -> Run:
    """Rewrite the folder for the next attempt: new plan and record; how the last attempt ended is kept beside it."""
    assert run.record is not None
    completion = run.paths.completion
    if completion.exists():
        completion.rename(completion.with_name(f"completed.{run.attempt}.json"))
    # The view of the attempt before would pass for news of this one.
    run.paths.view.unlink(missing_ok=True)
    record = run.record.model_copy(
        update={
            "attempt": run.attempt + 1,
            "resumed_from": str(resumed_from),
            "argv": tuple(hide_secrets(argv)),
            "version": version,
        }
    )
    write_whole(run.paths.job, plan.job.model_dump_json(indent=2) + "\n")
    write_whole(run.paths.plan, plan.model_dump_json(indent=2) + "\n")
    write_whole(run.paths.record, record.model_dump_json(indent=2) + "\n")
    return Run(run.paths, record)


def hide_secrets(argv: Sequence[str]) -> list[str]:
    """The command line as it may be kept: values of keys that sound like a secret are blanked."""
    return [re.sub(r"(?i)((?:password|token|secret|api_?key)[^=\s]*=).+", r"\1***", word) for word in argv]
