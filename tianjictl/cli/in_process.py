"""`launch --in-process`: the whole run in one thread of one process, where a debugger can look at it."""

from __future__ import annotations

import json as json_module
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from runtime.contract.run_mark import RUN_ID_VARIABLE
from runtime.contract.states import RunState
from tianjictl.cli.output import emit_json, note, say
from tianjictl.errors import Interrupted, TianjiError, TrainingFailed
from tianjictl.launching.stop_report import note_the_end
from tianjictl.runs.words import number

if TYPE_CHECKING:
    from runtime.contract.plan import Plan
    from tianjictl.runs.registry import Run


def run_in_process(plan: Plan, name: str, *, json: bool) -> int:
    """Run the plan to its end in a child that inherits the terminal; 0 only if the training completed."""
    from tianjictl.cli.main import installed_version
    from tianjictl.launching.folder import new_run

    with new_run(plan, name=name, argv=sys.argv, version=installed_version()) as run:
        note(f"running {run.run_id} in one process")
        code, summary = _child(run)
        _conclude(run, code)
    if json:
        emit_json("launch", {"run_id": run.run_id, "name": run.name, "folder": run.paths.root, **summary})
    else:
        say(
            f"completed {run.name} in one process: mean return of 100 episodes {number(summary.get('mean_100'))}, "
            f"{summary.get('env_steps', 0):,} env steps, {summary.get('updates', 0):,} updates "
            f"({summary.get('reason')})"
        )
    return 0


def _child(run: Run) -> tuple[int, dict[str, Any]]:
    """The child's exit code, and the summary on the last line it printed; what else it prints passes through."""
    process = subprocess.Popen(
        [sys.executable, "-m", "runtime", "in-process", str(run.paths.root)],
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
        env=os.environ | {RUN_ID_VARIABLE: run.run_id},
    )
    assert process.stdout is not None
    last = ""
    try:
        for line in process.stdout:
            if last:
                note(last)  # an environment may print; only the last line is the summary
            last = line.rstrip("\n")
        code = process.wait()
    except BaseException:
        # Ctrl-C reaches the child as well, which notes down how far it came; anything else must not orphan it.
        process.terminate()
        process.wait()
        raise
    finally:
        process.stdout.close()
    try:
        summary = json_module.loads(last)
    except ValueError:
        summary = None
    return code, summary if isinstance(summary, dict) else {}


def _conclude(run: Run, code: int) -> None:
    told = run.completion()
    if told is None:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        note_the_end(run, RunState.FAILED, f"its process {how}")
        told = run.completion()
    if told is not None and told.state is RunState.COMPLETED:
        return
    reason = told.reason if told is not None else f"exit code {code}"
    if told is not None and told.state is RunState.STOPPED:
        error = Interrupted if code == Interrupted.exit_code else TianjiError
        raise error(f"{run.run_id} was stopped: {reason}")
    raise TrainingFailed(f"{run.run_id} failed: {reason}", hint=f"tianjictl status {run.run_id}")
