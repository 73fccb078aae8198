"""A launcher that is killed before its run is up: the run ends in order, and says whose fault it was."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from runtime.contract.order import AgentOrder
from runtime.contract.paths import RunPaths
from runtime.contract.record import CompletionRecord
from runtime.contract.run_mark import ROOM, RUN_ID_VARIABLE
from runtime.contract.states import RunState

PATIENCE_S = 120.0


def test_a_run_whose_launcher_is_gone_before_it_is_up_stops_and_says_so(
    run_folder: RunPaths, make_plan: Any, write_run_files: Any
) -> None:
    write_run_files(run_folder, make_plan())
    agent = subprocess.Popen(
        [sys.executable, "-m", "runtime", "agent"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        env=os.environ | {RUN_ID_VARIABLE: ROOM},
    )  # fmt: skip
    try:
        assert agent.stdin is not None and agent.stdout is not None
        agent.stdin.write(AgentOrder(run=str(run_folder.root)).model_dump_json().encode() + b"\n")
        agent.stdin.close()
        agent.stdout.close()  # as the kernel does for a launcher that is killed
        agent.wait(PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while not run_folder.completion.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        agent.kill()
        agent.wait()
    ended = CompletionRecord.model_validate_json(run_folder.completion.read_bytes())
    assert (ended.state, ended.reason) == (RunState.STOPPED, "its launcher was gone before the run was up")
