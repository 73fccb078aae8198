"""From a job to a plan for this machine: gathers the facts, asks the environment for its shapes, then plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.contract.job import Job
    from runtime.contract.plan import Plan


def plan_for_this_machine(
    job: Job,
    *,
    shape: str | None = None,
    oversubscribe: bool = False,
    profile_path: Path | None = None,
    progress: Callable[[str], None] = lambda _line: None,
) -> Plan:
    """Plan `job` on the local host.

    `shape` (`L2A8`) overrides the job's counts, `oversubscribe` lets components share cores, `profile_path` names a
    saved profile instead of the cached one. Where a number is `auto`, more than one shape fits and nothing was
    measured yet, short measurements run first (up to 10 s, each announced through `progress`).
    Raises `tianjictl.errors.Infeasible` if no placement exists and `tianjictl.errors.BadInput` if the environment
    cannot be made.
    """
    raise NotImplementedError
