"""`python -m runtime tracker RUN_DIR NAME`: pass on the points on standard input to a tracking server, until they end.

A process of its own, beside the coordinator: clients of such servers are large, slow to load, start threads and
processes, and may hang; none of that may hold up a run.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.paths import RunPaths
from runtime.contract.plan import Plan
from runtime.contract.record import CompletionRecord, RunRecord
from runtime.metrics.settings import settings_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime.contract.states import RunState
    from runtime.metrics.sinks import MetricSink

log = logging.getLogger(__name__)

TRACKERS = ("mlflow", "wandb")
NICENESS = 5  #: as components have: agents and coordinators come first
LEAVE_WITHIN_S = 60  #: once the coordinator is gone


def main(argv: list[str]) -> int:
    """0 when all was passed on; ends the process with 1 where the server could not be used."""
    parser = argparse.ArgumentParser(prog="runtime tracker")
    parser.add_argument("folder", type=Path)
    parser.add_argument("name", choices=TRACKERS)
    order = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    os.nice(NICENESS)
    threading.Thread(target=_outlive_briefly, args=(os.getppid(),), daemon=True).start()
    try:
        pass_on(_open(RunPaths(order.folder.absolute()), order.name), sys.stdin)
    except Exception as error:  # foreign clients raise what they like; the story ends here, with its cause
        log.error("metrics.failed sink=%s error=%s: %s", order.name, type(error).__name__, str(error)[:500])
        os._exit(1)  # a client that has failed may also wait for its server when Python ends
    return 0


def _outlive_briefly(parent: int) -> None:
    """A client may hang, and then nobody is left who would end this process: it has to see to it itself."""
    while os.getppid() == parent:
        time.sleep(1.0)
    signal.alarm(LEAVE_WITHIN_S)


def pass_on(sink: MetricSink, lines: Iterable[str]) -> None:
    """Write every point, then close the sink."""
    for line in lines:
        values = json.loads(line)
        step, time_s = int(values.pop("step")), float(values.pop("time"))
        sink.write(step, values, time_s=time_s)
    sink.close()


def _open(paths: RunPaths, name: str) -> MetricSink:
    plan = Plan.model_validate_json(paths.plan.read_bytes())
    record = RunRecord.model_validate_json(paths.record.read_bytes())
    settings, wanted = settings_of(plan), plan.job.metrics
    if name == "mlflow":
        from runtime.metrics.mlflow_run import MlflowRun

        uri, experiment = wanted.mlflow.tracking_uri or "", wanted.mlflow.experiment
        return MlflowRun(record.run_id, uri, experiment, settings, partial(_ended, paths, record.attempt))
    from runtime.metrics.wandb_run import WandbRun

    return WandbRun(record.run_id, wanted.wandb.project or "", wanted.wandb.mode, paths.root / "wandb", settings)


def _ended(paths: RunPaths, attempt: int) -> RunState | None:
    """How this attempt has ended, once it has."""
    try:
        record = CompletionRecord.model_validate_json(paths.completion.read_bytes())
    except (OSError, ValidationError):
        return None
    return record.state if record.attempt >= attempt else None
