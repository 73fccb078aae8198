"""The job that a command line names: a file, options on top of it, or options alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.errors import Finding, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runtime.contract.job import Job


def read_job(
    path: Path | None,
    *,
    env: str | None = None,
    algo: str | None = None,
    overrides: Sequence[str] = (),
    oversubscribe: bool = False,
) -> Job:
    """Read the job; UsageProblem lists everything that is wrong with it, each finding with what mends it."""
    from runtime.contract.job_file import JobError, load_job

    try:
        return load_job(path, env=env, algo=algo, overrides=overrides, oversubscribe=oversubscribe)
    except JobError as error:
        raise UsageProblem.listing([Finding(*problem.told()) for problem in error.problems]) from error
