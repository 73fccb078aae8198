"""The checkpoints of a run, as the runtime's own store tells them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict

from runtime.contract.model import View
from tianjictl.errors import CheckpointProblem
from tianjictl.runs.tool import runtime_tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from tianjictl.runs.registry import Run

LATEST = "latest"


class CheckpointView(View):
    """One checkpoint folder; `problems` is empty where it is complete and undamaged."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    step: int
    path: str
    created_at: str | None = None  #: RFC 3339
    shape: str | None = None
    bytes: int = 0
    problems: tuple[str, ...] = ()


def list_checkpoints(run: Run) -> list[CheckpointView]:
    """All checkpoints, newest first; looks at manifests and sizes, not at every byte."""
    return _views(runtime_tool(["checkpoints", "list", str(run.paths.checkpoints)]))


def verify_checkpoints(run: Run) -> list[CheckpointView]:
    """All checkpoints, newest first, every byte of them compared with its digest."""
    return _views(runtime_tool(["checkpoints", "verify", str(run.paths.checkpoints)]))


def prune_checkpoints(run: Run, keep: int) -> list[str]:
    """Remove all but the newest `keep` complete checkpoints, and what is left of unfinished ones; says which went."""
    answer = runtime_tool(["checkpoints", "prune", str(run.paths.checkpoints), "--keep", str(keep)])
    return [str(path) for path in answer["removed"]]


def choose_checkpoint(run: Run, wanted: str, skipped: Callable[[str], None]) -> CheckpointView:
    """The checkpoint meant by `latest`, a step number or a path; CheckpointProblem where it cannot be used.

    `latest` is the newest undamaged one: those passed over are told to `skipped`, with what is wrong with them.
    """
    if wanted != LATEST and not wanted.isdigit():
        return checkpoint_at(wanted)
    known = verify_checkpoints(run)
    if wanted == LATEST:
        for checkpoint in known:
            if not checkpoint.problems:
                return checkpoint
            skipped(f"skipped checkpoint {checkpoint.step}: {'; '.join(checkpoint.problems)}")
        what = "no checkpoint" if not known else f"no undamaged checkpoint among {len(known)}"
        raise CheckpointProblem(
            f"{run.run_id} has {what} in {run.paths.checkpoints}",
            hint="nothing is started from scratch unasked: tianjictl launch JOB begins anew",
        )
    for checkpoint in known:
        if checkpoint.step == int(wanted):
            return _usable(checkpoint, newest_good(known))
    steps = ", ".join(str(checkpoint.step) for checkpoint in known[:8]) or "none"
    raise CheckpointProblem(f"{run.run_id} has no checkpoint of step {wanted}; it has {steps}", hint="use latest")


def newest_good(known: list[CheckpointView]) -> CheckpointView | None:
    """The newest undamaged one of a list that is newest first."""
    return next((checkpoint for checkpoint in known if not checkpoint.problems), None)


def checkpoint_at(wanted: str) -> CheckpointView:
    """The checkpoint in the folder `wanted`, verified; CheckpointProblem where it is missing or damaged."""
    path = Path(wanted).expanduser().absolute()
    if not path.is_dir():
        raise CheckpointProblem(f"there is no checkpoint folder {path}", hint="tianjictl checkpoints")
    known = _views(runtime_tool(["checkpoints", "verify", str(path.parent)]))
    for checkpoint in known:
        if Path(checkpoint.path).resolve() == path.resolve():
            return _usable(checkpoint, newest_good(known))
    raise CheckpointProblem(f"{path} is not a checkpoint", hint="give a folder such as …/checkpoints/step-000000012000")


def _usable(checkpoint: CheckpointView, good: CheckpointView | None) -> CheckpointView:
    if not checkpoint.problems:
        return checkpoint
    hint = f"the newest undamaged one is of step {good.step}" if good else "no other one is undamaged"
    raise CheckpointProblem(f"checkpoint {checkpoint.step} cannot be used: {'; '.join(checkpoint.problems)}", hint=hint)


def _views(answer: Any) -> list[CheckpointView]:
    found = [CheckpointView.model_validate(item) for item in answer["checkpoints"]]
    return sorted(found, key=lambda checkpoint: checkpoint.step, reverse=True)
