"""`python -m runtime coordinator RUN_DIR [AGENT_PID] [--listen ADDRESS]`: coordinate one attempt of a run."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from runtime.checkpoint.errors import CheckpointError
from runtime.contract.paths import RunPaths
from runtime.contract.plan import Plan
from runtime.contract.record import RunRecord
from runtime.control.coordinator import Coordinator
from runtime.control.coordinator_state import load_completion
from runtime.control.wire import WireError

log = logging.getLogger(__name__)


def main(argv: list[str]) -> int:
    """0 when the run has ended, 1 where it could not be coordinated. Without AGENT_PID the agent is the parent."""
    parser = argparse.ArgumentParser(prog="runtime coordinator")
    parser.add_argument("folder", type=Path)
    parser.add_argument("agent_pid", type=int, nargs="?", default=os.getppid())
    parser.add_argument("--listen", help="the address at which agents of other nodes may connect")
    order = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    paths = RunPaths(order.folder.absolute())
    plan = Plan.model_validate_json(paths.plan.read_bytes())
    record = RunRecord.model_validate_json(paths.record.read_bytes())
    ended = load_completion(paths)
    if ended is not None and ended.attempt == record.attempt:
        log.info("coordinator.nothing-to-do state=%s", ended.state)
        return 0
    try:
        coordinator = Coordinator(paths, plan, record, agent_pid=order.agent_pid, listen=order.listen)
    except (WireError, CheckpointError, OSError) as error:
        log.error("coordinator.cannot-start error=%s", error)
        return 1
    try:
        return coordinator.serve()
    except OSError as error:  # the agent starts another, which tries again from the state on disk
        log.exception("coordinator.cannot-go-on error=%s", error)
        return 1
    finally:
        coordinator.close()
