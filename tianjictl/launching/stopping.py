"""How a run is brought to its end: asked, then SIGTERM, then SIGKILL, and a look whether anything is left."""

from __future__ import annotations

import time
from signal import SIGCONT, SIGKILL, SIGTERM
from typing import TYPE_CHECKING

from runtime.contract.operator import StopRequest
from runtime.contract.states import RunState
from tianjictl.errors import TianjiError
from tianjictl.launching.stop_report import TERM_WAIT_S, How, StopReport, note_the_end
from tianjictl.runs.client import request
from tianjictl.runs.processes import RunProcess, everything_of, send, wait_gone

if TYPE_CHECKING:
    from collections.abc import Callable

    from tianjictl.runs.registry import Run

_KILL_WAIT_S = 10.0


def stop_run(
    run: Run,
    *,
    checkpoint: bool,
    grace_s: float,
    force: bool = False,
    reason: str = "asked by the operator",
    progress: Callable[[str], None] = lambda _line: None,
) -> StopReport:
    """End the run; only processes that carry its id are touched. Calling it again is harmless.

    `grace_s` is how long a run that was asked may take to write its checkpoint and leave. `force` skips the asking.
    """
    if run.nodes:
        from tianjictl.launching.cluster_stop import stop_nodes

        return stop_nodes(run, checkpoint=checkpoint, grace_s=grace_s, force=force, reason=reason, progress=progress)
    began = time.monotonic()
    if not everything_of(run):
        return StopReport("already", (), 0.0)
    if force:
        left = _kill(run, progress)
        how: How = "killed"
    else:
        how, left = _gracefully(run, checkpoint, grace_s, reason, progress)
    if not left:
        note_the_end(run, RunState.STOPPED, f"{reason}; its processes were {how}")
    return StopReport(how, tuple(left), time.monotonic() - began)


def _gracefully(
    run: Run, checkpoint: bool, grace_s: float, reason: str, progress: Callable[[str], None]
) -> tuple[How, list[RunProcess]]:
    try:
        request(run, StopRequest(checkpoint=checkpoint, reason=reason))
    except TianjiError as error:
        progress(f"{error.message}; sending SIGTERM")
    else:
        progress(f"asked to stop{' after a last checkpoint' if checkpoint else ''}; waiting up to {grace_s:g} s")
        left = wait_gone(run, time.monotonic() + grace_s)
        if not left:
            return "asked", []
        progress(f"{len(left)} processes are still there after {grace_s:g} s; sending SIGTERM")
    # The agent knows how to end what it started; the others are told only when it is not there to do so.
    agent = run.agent_pid()
    send(run, SIGTERM, only=None if agent is None else [agent])
    send(run, SIGCONT)
    left = wait_gone(run, time.monotonic() + min(max(grace_s, 1.0), TERM_WAIT_S))
    if not left:
        return "terminated", []
    progress(f"{len(left)} processes ignore SIGTERM; sending SIGKILL")
    return "killed", _kill(run, progress)


def _kill(run: Run, progress: Callable[[str], None]) -> list[RunProcess]:
    """SIGKILL, the agent first, as it would replace what is killed before it."""
    deadline = time.monotonic() + _KILL_WAIT_S
    agent = run.agent_pid()
    if agent is not None:
        send(run, SIGKILL, only=[agent])
    left = everything_of(run)
    while left and time.monotonic() < deadline:
        progress(f"killing {', '.join(str(process.pid) for process in left)}")
        send(run, SIGKILL)
        left = wait_gone(run, min(deadline, time.monotonic() + 1.0))
    return left
