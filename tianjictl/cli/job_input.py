"""The job that a command line names: a file, options on top of it, or options alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
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


def check_shape(shape: str | None) -> None:
    """UsageProblem where `--shape` is none, said before any host is reached."""
    from runtime.contract.shape import Shape

    try:
        Shape.parse(shape or "L1A1")
    except ValueError as error:
        counts = [int(number) for number in re.findall(r"\d+", shape or "")[:2]]
        learners = max(1, counts[0]) if len(counts) == 2 else 1
        nearest = Shape(learners, max(learners, counts[1] if len(counts) == 2 else 2))
        raise UsageProblem(f"--shape: {error}", hint=f"--shape {nearest}") from error


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says of the job."""

    path: Path | None
    env: str | None
    algo: str | None
    overrides: tuple[str, ...]
    shape: str | None
    oversubscribe: bool
    profile: Path | None

    @property
    def is_plan(self) -> bool:
        return self.path is not None and self.path.suffix == ".json"

    @property
    def changes_the_job(self) -> bool:
        """Whether anything but the file is said."""
        return bool(self.env or self.algo or self.overrides or self.shape or self.oversubscribe or self.profile)

    def job(self) -> Job:
        """The job as the command line means it; UsageProblem lists what is wrong with it."""
        check_shape(self.shape)
        return read_job(
            self.path, env=self.env, algo=self.algo, overrides=self.overrides, oversubscribe=self.oversubscribe
        )

    def words(self, *, shape: str | None = None, oversubscribe: bool = False) -> tuple[str, ...]:
        """What was typed to say which job, for other commands to be given the same; with another shape, or sharing."""
        named = [str(self.path)] if self.path is not None else []
        for option, value in (("--env", self.env), ("--algo", self.algo), ("--shape", shape or self.shape)):
            named += [option, value] if value is not None else []
        named += ["--profile", str(self.profile)] if self.profile is not None else []
        named += [word for override in self.overrides for word in ("--set", override)]
        return (*named, *(["--oversubscribe"] if oversubscribe or self.oversubscribe else []))
