"""All places that the numbers of one run go to."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.record import CompletionRecord
from runtime.metrics.aside import Aside
from runtime.metrics.mlflow_run import MlflowRun
from runtime.metrics.settings import settings_of
from runtime.metrics.sinks import FanOut, JsonLines, Thinned
from runtime.metrics.tensorboard import TensorBoard
from runtime.metrics.wandb_run import WandbRun

if TYPE_CHECKING:
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Plan
    from runtime.contract.states import RunState
    from runtime.metrics.sinks import MetricSink


def open_sinks(paths: RunPaths, plan: Plan, attempt: int) -> MetricSink:
    """The run's own files, and what its job asks for; nothing is loaded and nobody is called before the first point."""
    settings, wanted, run_id = settings_of(plan), plan.job.metrics, paths.run_id
    sinks: list[MetricSink] = [JsonLines(paths.metrics), TensorBoard(paths.tensorboard, settings)]
    if wanted.mlflow.tracking_uri is not None:
        uri, experiment = wanted.mlflow.tracking_uri, wanted.mlflow.experiment
        ended = partial(_ended, paths, attempt)
        sinks.append(Aside("mlflow", partial(MlflowRun, run_id, uri, experiment, settings, ended)))
    if wanted.wandb.project is not None:
        project, mode = wanted.wandb.project, wanted.wandb.mode
        sinks.append(Aside("wandb", partial(WandbRun, run_id, project, mode, paths.root / "wandb", settings)))
    return Thinned(FanOut(sinks))


def _ended(paths: RunPaths, attempt: int) -> RunState | None:
    """How this attempt has ended, once it has."""
    try:
        record = CompletionRecord.model_validate_json(paths.completion.read_bytes())
    except (OSError, ValidationError):
        return None
    return record.state if record.attempt >= attempt else None
