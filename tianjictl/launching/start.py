"""From a filled run folder to a run in which every component has reported; or back to nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from runtime.contract.states import TERMINAL_RUN_STATES, ComponentState, RunState
from tianjictl.errors import Interrupted, TianjiError, TimedOut, TrainingFailed
from tianjictl.launching.stop_report import StopReport, note_the_end
from tianjictl.launching.stopping import stop_run
from tianjictl.runs.client import observe
from tianjictl.runs.logfiles import last_words

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.contract.view import RunView
    from tianjictl.launching.agent import AgentProcess
    from tianjictl.runs.registry import Run

READY_WITHIN_S = 60.0
UP_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.1
INTERRUPTED = "interrupted while it was being started"


def bring_up(
    run: Run,
    agent: AgentProcess,
    *,
    resume_from: Path | None = None,
    progress: Callable[[str], None] = lambda _line: None,
) -> RunView:
    """Hand the run to its agent and wait until every component has reported.

    On any failure, Ctrl-C included, everything that was started is taken down again, the folder says that the run
    failed, and the error carries the last words of the components that did not come up.
    """
    try:
        progress("starting the agent")
        agent.hand_over(run.paths.root, resume_from, timeout_s=READY_WITHIN_S)
        return wait_until_up(run, agent.gone, progress=progress, deadline=time.monotonic() + UP_WITHIN_S)
    except BaseException as error:
        progress("taking down what was started")
        interrupted = isinstance(error, Interrupted) or not isinstance(error, Exception)
        why = INTERRUPTED if interrupted else "the launch failed"
        report = _take_down(run, agent, why, progress)
        told = run.completion()
        if interrupted:
            note_the_end(run, RunState.STOPPED, INTERRUPTED, replace=True)
        elif told is None or told.state is not RunState.FAILED:
            why = error.message if isinstance(error, TianjiError) else f"{type(error).__name__}: {error}"
            note_the_end(run, RunState.FAILED, f"could not be started: {why.partition(chr(10))[0]}", replace=True)
        if report.survivors and isinstance(error, TianjiError):
            left = ", ".join(f"{process.pid} ({process.command})" for process in report.survivors)
            error.details = (*error.details, f"still running: {left}")
        if interrupted:
            raise Interrupted(f"interrupted; what had been started of {run.run_id} is taken down again") from None
        raise


def _take_down(run: Run, agent: AgentProcess, why: str, progress: Callable[[str], None]) -> StopReport:
    """End all that was started. Nothing has been trained, so what cannot be asked is killed without ado, and so is all
    where Ctrl-C is pressed once more meanwhile.
    """
    asked = run.paths.control_socket.exists()
    try:
        report = stop_run(run, checkpoint=False, grace_s=3.0, force=not asked, reason=why, progress=progress)
        agent.dismiss()
    except (KeyboardInterrupt, Interrupted):
        progress("killing what was started")
        report = stop_run(run, checkpoint=False, grace_s=0.0, force=True, reason=why, progress=progress)
        agent.dismiss()
    # An agent that had not yet read its order may have begun on it between the two.
    late = stop_run(run, checkpoint=False, grace_s=0.0, force=True, reason=why, progress=progress)
    return report if late.how == "already" else late


def wait_until_up(
    run: Run, agent_gone: Callable[[], bool], *, progress: Callable[[str], None], deadline: float
) -> RunView:
    """Look at the run until every wanted component runs; TrainingFailed or TimedOut with the reason otherwise."""
    told = ""
    while True:
        gone = agent_gone()  # asked first: an agent that leaves after a tiny job has written how it ended
        picture = observe(run)
        view = picture.view
        if picture.ended or view.state in TERMINAL_RUN_STATES:
            if view.state is RunState.COMPLETED:
                return view  # a job so small that it was done before anyone looked
            raise TrainingFailed(f"the run {view.state} while starting: {view.reason}{_words_of(run, view)}")
        if picture.live and is_up(view):
            return view
        if gone:
            raise TrainingFailed(f"the agent ended while the run was starting{_words_of(run, view)}")
        if time.monotonic() > deadline:
            raise TimedOut(f"not every component has reported: {missing(view)}{_words_of(run, view)}")
        now = f"{view.state}: {missing(view)}"
        if now != told:
            progress(now)
            told = now
        time.sleep(_LOOK_EVERY_S)


def is_up(view: RunView) -> bool:
    """Whether every wanted component has reported that it works."""
    if view.state is RunState.RUNNING:
        return True
    running = [component.state is ComponentState.RUNNING for component in view.components]
    return view.state is RunState.STOPPING or (bool(running) and all(running) and view.state is not RunState.DEGRADED)


def missing(view: RunView) -> str:
    """Which components have not reported, with what is known of them."""
    waiting = [
        f"{component.name} {component.state}"
        + (f" ({component.reason})" if component.reason not in ("", component.state) else "")
        for component in view.components
        if component.state is not ComponentState.RUNNING
    ]
    return ", ".join(waiting) or view.reason


def _words_of(run: Run, view: RunView) -> str:
    silent = {c.name for c in view.components if c.state not in (ComponentState.RUNNING, ComponentState.PENDING)}
    words = last_words(run, silent or {"agent", "coordinator"})
    return "\n" + "\n".join(f"  {line}" for line in words) if words else ""
