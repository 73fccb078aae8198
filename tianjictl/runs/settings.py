"""Settings of a run that its operator's commands heed, read from its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.job import HealthConfig, Job
from runtime.contract.plan import Plan
from tianjictl.errors import UsageProblem

if TYPE_CHECKING:
    from tianjictl.runs.registry import Run


def stop_grace_s(run: Run) -> float:
    """How long the run may take to stop when asked, in seconds; the default where its job cannot be read."""
    try:
        return Job.model_validate_json(run.paths.job.read_bytes()).health.stop_grace
    except (OSError, ValidationError):
        return HealthConfig().stop_grace


def plan_of(run: Run) -> Plan:
    """The plan the run was started with; UsageProblem where it is gone or makes no sense."""
    try:
        return Plan.model_validate_json(run.paths.plan.read_bytes())
    except (OSError, ValidationError) as error:
        raise UsageProblem(f"the plan of {run.run_id} cannot be read: {run.paths.plan}") from error
