"""What is still true of a run that is over: its averages, and the command that goes on with it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.states import TERMINAL_RUN_STATES, RunState
from tianjictl.runs.words import rate

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.contract.view import RunView

NOTHING_SAVED = "launch the job again: no checkpoint had been written to go on from"
_CAN_GO_ON = (RunState.STOPPED, RunState.FAILED, RunState.LOST)


def is_over(view: RunView) -> bool:
    """Whether nothing of the run goes on."""
    return view.state in TERMINAL_RUN_STATES


def averages(view: RunView) -> tuple[float, float] | None:
    """Environment steps and updates per second over the whole run, all its attempts; none of one without a duration.

    What the view calls its rates are those of the last ten seconds before it was made: no word on a run that is over.
    """
    if view.elapsed_s <= 0.0:
        return None
    return view.progress.env_steps / view.elapsed_s, view.progress.updates / view.elapsed_s


def average_words(view: RunView) -> str:
    """`on average 10,208 env steps/s, 8.1 updates/s`."""
    found = averages(view)
    if found is None:
        return "-"
    steps, updates = found
    return f"on average {rate(steps)} env steps/s, {rate(updates)} updates/s"


def after_failure(view: RunView, bad_batches: Path | None) -> str:
    """What to do about a run that failed or is lost. `bad_batches`: where batches lie that gave no finite numbers."""
    steps = [f"tianjictl logs {view.run_id} -n 20"]
    if bad_batches is not None:
        steps.append(f"the batches that gave no finite numbers are in {bad_batches}")
    on = way_on(view)
    steps.append(on if on is not None else NOTHING_SAVED)
    return ", then ".join(steps)


def way_on(view: RunView) -> str | None:
    """The command that continues the run; none where it has reached its end, or has no checkpoint to go on from."""
    if view.state not in _CAN_GO_ON or view.checkpoints.last_step is None:
        return None
    return f"tianjictl resume {view.run_id} --from-checkpoint"
