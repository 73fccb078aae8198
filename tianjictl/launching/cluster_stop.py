"""The end of a run on many nodes: its coordinator is asked, then every node is looked at, each by itself.

A node that cannot be reached delays no other, and is named: what runs there is not known.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from runtime.contract.operator import StopRequest
from runtime.contract.states import RunState
from tianjictl.errors import TianjiError
from tianjictl.launching.stop_report import TERM_WAIT_S, How, StopReport, note_the_end
from tianjictl.remote.deadlines import Deadlines
from tianjictl.remote.fanout import Err, Limits, Ok, fan_out
from tianjictl.remote.reach import reach
from tianjictl.runs.client import observe, request
from tianjictl.runs.nodes import host_of
from tianjictl.runs.sweeping import sweep

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.record import NodeRecord
    from tianjictl.runs.processes import RunProcess
    from tianjictl.runs.registry import Run

_DEADLINES = Deadlines(connect_s=4.0)
_KILL_WAIT_S = 10.0
_ORDER: tuple[How, ...] = ("already", "asked", "terminated", "killed")


def stop_nodes(
    run: Run, *, checkpoint: bool, grace_s: float, force: bool, reason: str, progress: Callable[[str], None]
) -> StopReport:
    """End the run on every node of its record; only processes that carry its id are touched."""
    began = time.monotonic()
    asked = not force and _asked(run, checkpoint, grace_s, reason, progress)
    ending = _Ending(run.run_id, asked=asked, force=force, grace_s=grace_s)
    outcomes = fan_out(
        {node.name: node for node in run.nodes},
        ending.of,
        limits=Limits(tries=2, host_s=grace_s + TERM_WAIT_S + _KILL_WAIT_S + 60.0),
        on_outcome=lambda name, came: progress(_told(name, came)),
    )
    came = [outcome.value for outcome in outcomes.values() if isinstance(outcome, Ok)]
    unreachable = tuple(outcome.error.message for outcome in outcomes.values() if isinstance(outcome, Err))
    nothing: How = "already"
    how = max((ended[0] for ended in came), key=_ORDER.index, default=nothing)
    survivors = tuple(process for _, left in came for process in left)
    head = outcomes.get(run.record.head or "") if run.record else None
    if not survivors and isinstance(head, Ok):
        observe(run)  # hears how it ended, where its head is another machine
        if how != "already":
            note_the_end(run, RunState.STOPPED, f"{reason}; its processes were {how}")
    return StopReport(how, survivors, time.monotonic() - began, unreachable)


def _asked(run: Run, checkpoint: bool, grace_s: float, reason: str, progress: Callable[[str], None]) -> bool:
    """Whether the coordinator has taken the request."""
    if run.completion() is not None:
        return False
    try:
        request(run, StopRequest(checkpoint=checkpoint, reason=reason))
    except TianjiError as error:
        progress(f"{error.message}; sending SIGTERM")
        return False
    progress(f"asked to stop{' after a last checkpoint' if checkpoint else ''}; waiting up to {grace_s:g} s")
    return True


class _Ending:
    """What is done on each node, and what it came to: how its processes ended, and those that are still there."""

    def __init__(self, run_id: str, *, asked: bool, force: bool, grace_s: float) -> None:
        self._run_id, self._asked, self._force, self._grace_s = run_id, asked, force, grace_s

    def of(self, node: NodeRecord) -> tuple[How, tuple[RunProcess, ...]]:
        with reach(host_of(node), deadlines=_DEADLINES) as connection:
            left = sweep(connection, self._run_id, "look", self._grace_s if self._asked else 0.0)
            if not left:
                return ("asked" if self._asked else "already"), ()
            if not self._force:
                wait_s = min(max(self._grace_s, 1.0), TERM_WAIT_S)
                if not sweep(connection, self._run_id, "ask", wait_s):
                    return "terminated", ()
            return "killed", sweep(connection, self._run_id, "kill", _KILL_WAIT_S)


def _told(name: str, came: Ok[tuple[How, tuple[RunProcess, ...]]] | Err) -> str:
    if isinstance(came, Err):
        return came.error.message
    how, left = came.value
    if left:
        return f"{name}: still running: {', '.join(str(process.pid) for process in left)}"
    words = {"already": "nothing of it was running", "asked": "nothing of it is left"}
    return f"{name}: {words.get(how, f'its processes were {how}; nothing is left')}"
