"""A run in MLflow. The one door through which mlflow comes in, loaded when it is first needed.

Who may write is told to MLflow's client by its own means (MLFLOW_TRACKING_TOKEN, ~/.mlflow/credentials), never by the
job.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.contract.states import RunState
    from runtime.metrics.settings import Setting

#: The tag by which later attempts find the run.
RUN_TAG = "tianji.run_id"
_STATUS = {"completed": "FINISHED", "stopped": "KILLED", "failed": "FAILED", "lost": "FAILED"}
_MOST_LETTERS = 500  #: of a parameter's value, as older servers have it


class MlflowRun:
    """A `MetricSink` into one run of a tracking server; later attempts of the same training go on in it."""

    def __init__(
        self,
        run_id: str,
        tracking_uri: str,
        experiment: str,
        settings: Mapping[str, Setting],
        ended: Callable[[], RunState | None],
    ) -> None:
        """Find or make experiment and run. `ended` says at the close how the training ended, if it has.

        Raises what the client raises (MlflowException, OSError) where the server cannot be used.
        """
        if tracking_uri.startswith("file:"):
            # The client has refused folders since version 3.7 unless it is told that they are meant.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient(tracking_uri=tracking_uri)
        self._ended = ended
        self._run = self._find_or_make(run_id, experiment)
        self._note(settings)

    def _find_or_make(self, run_id: str, experiment: str) -> Any:
        found = self._client.get_experiment_by_name(experiment)
        place = self._client.create_experiment(experiment) if found is None else found.experiment_id
        known = self._client.search_runs([place], f"tags.`{RUN_TAG}` = '{run_id}'", max_results=1)
        if known:
            self._client.update_run(known[0].info.run_id, status="RUNNING")
            return known[0]
        return self._client.create_run(place, tags={RUN_TAG: run_id}, run_name=run_id)

    def _note(self, settings: Mapping[str, Setting]) -> None:
        """A parameter cannot change: those of the first attempt stay."""
        from mlflow.entities import Param

        new = {name: value for name, value in settings.items() if name not in self._run.data.params}
        params = [Param(name, str(value)[:_MOST_LETTERS]) for name, value in new.items()]
        for start in range(0, len(params), 100):  # the most that a server takes at once
            self._client.log_batch(self._run.info.run_id, params=params[start : start + 100])

    def write(self, step: int, values: Mapping[str, float], *, time_s: float) -> None:
        from mlflow.entities import Metric

        at = round(time_s * 1000)
        points = [Metric(name, value, at, step) for name, value in values.items()]
        self._client.log_batch(self._run.info.run_id, metrics=points)

    def close(self) -> None:
        """Note how the training ended; where it has not, another coordinator goes on with the run."""
        state = self._ended()
        if state is not None:
            self._client.set_terminated(self._run.info.run_id, _STATUS.get(state, "FAILED"))
