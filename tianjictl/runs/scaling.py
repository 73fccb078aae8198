"""What another shape of a live run changes, and waiting until it has changed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.operator import Difference
from runtime.contract.states import RunState
from tianjictl.errors import TianjiError, TimedOut, TrainingFailed
from tianjictl.runs.client import observe, request

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.operator import ScaleRequest
    from runtime.contract.view import RunView
    from tianjictl.runs.registry import Run

_LOOK_EVERY_S = 0.1
_ANSWER_WITHIN_S = 10.0  #: the plan is worked out, written down and sent before the answer


def difference_lines(change: Difference) -> list[str]:
    """The difference as people read it: a line for each component and host, `+` joins, `-` leaves, `~` stays."""
    lines = [f"+ host {name}" for name in change.hosts_added]
    lines += [f"+ {name}" for name in change.starts]
    lines += [f"- {name}" for name in change.leaves]
    lines += [f"- host {name}" for name in change.hosts_left]
    return [*lines, f"~ {change.stays} components go on where they are"]


def ask_difference(run: Run, wanted: ScaleRequest) -> Difference:
    """What the request changes; without `dry_run` it is changed. TianjiError where the coordinator refuses."""
    answer = request(run, wanted, timeout_s=_ANSWER_WITHIN_S)
    try:
        return Difference.model_validate(answer)
    except ValidationError as error:
        raise TianjiError(
            f"the coordinator of {run.run_id} does not say what would change; it may be of an older version"
        ) from error


def changes(change: Difference) -> bool:
    """Whether there is any difference."""
    parts = (change.starts, change.leaves, change.hosts_added, change.hosts_left)
    return any(parts) or change.shape_before != change.shape_after


def wait_until_scaled(
    run: Run, change: Difference, returning: tuple[str, ...], within_s: float, progress: Callable[[str], None]
) -> None:
    """Until everybody who joins works and everybody who leaves is gone; TimedOut names who is not."""
    deadline = time.monotonic() + within_s
    told = ""
    while True:
        picture = observe(run)
        view = picture.view
        if picture.ended:
            if view.state is RunState.COMPLETED:
                progress(f"{run.run_id} has completed meanwhile: {view.reason}")
                return
            raise TrainingFailed(f"{run.run_id} {view.state} while it was scaled: {view.reason}")
        left = _missing(view, change) + _not_back(view, returning)
        if picture.live and not left:
            return
        if time.monotonic() > deadline:
            raise TimedOut(
                f"not as wanted after {within_s:g} s: {', '.join(left) or picture.problem or view.reason}",
                hint=f"tianjictl status {run.run_id}; tianjictl logs {run.run_id}",
            )
        now = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
        if now != told:
            progress(f"waiting for {now or picture.problem or 'an answer'}")
            told = now
        time.sleep(_LOOK_EVERY_S)


def _missing(view: RunView, change: Difference) -> list[str]:
    """Who is not yet as the change wants them."""
    states = {component.name: component.state.value for component in view.components}
    wanted = [line.partition(" on ")[0] for line in change.starts]
    leaving = [line.partition(" on ")[0] for line in change.leaves]
    waiting = [f"{name} ({states.get(name, 'not there')})" for name in wanted if states.get(name) != "running"]
    return waiting + [f"{name} (to leave, {states[name]})" for name in leaving if name in states]


def _not_back(view: RunView, returning: tuple[str, ...]) -> list[str]:
    """Hosts that do not take part again yet. What runs on one that has begun anew has names of its own."""
    states = {host.name: host.state for host in view.hosts}
    silent = [f"{name} ({states.get(name, 'not there')})" for name in returning if states.get(name) != "connected"]
    if silent or not returning or view.state is RunState.RUNNING:
        return silent
    return [f"the run to be whole ({view.reason})"]
