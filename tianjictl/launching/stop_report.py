"""How a run was brought to its end, and the note of it in the run's folder."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from runtime.contract.files import write_whole
from runtime.contract.record import CompletionRecord
from runtime.contract.states import RunState
from tianjictl.errors import TianjiError
from tianjictl.runs.client import blank_view, stored_view

if TYPE_CHECKING:
    from tianjictl.runs.processes import RunProcess
    from tianjictl.runs.registry import Run

How = Literal["already", "asked", "terminated", "killed"]
TERM_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class StopReport:
    """What it took, and what is left (nothing, unless the machine would not let go of a process)."""

    how: How
    survivors: tuple[RunProcess, ...]
    seconds: float
    unreachable: tuple[str, ...] = ()  #: why nobody could look on a node, one line for each


def note_the_end(run: Run, state: RunState, reason: str, *, replace: bool = False) -> None:
    """Write down how the run ended, unless its coordinator has already done so (and `replace` is not set)."""
    if run.completion() is not None and not replace:
        return
    view = stored_view(run) or blank_view(run)
    ended = CompletionRecord(
        run_id=run.run_id,
        attempt=run.attempt,
        state=state,
        reason=reason,
        ended_at=datetime.now(UTC),
        env_steps=view.progress.env_steps,
        updates=view.progress.updates,
    )
    try:
        write_whole(run.paths.completion, ended.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise TianjiError(
            f"how {run.run_id} ended ({state}: {reason}) could not be noted in {run.paths.root}: "
            f"{error.strerror or error}; nothing of it is running",
            hint=f"free some space there; then tianjictl resume {run.run_id} --from-checkpoint continues it",
        ) from error
