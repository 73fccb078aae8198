"""A run in Weights & Biases. The one door through which wandb comes in, loaded when it is first needed.

Who may write is told to its client by its own means (WANDB_API_KEY, ~/.netrc), never by the job.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runtime.metrics.settings import Setting

STEP = "env_steps"  #: the horizontal axis


class WandbRun:
    """A `MetricSink` into one run of a project; later attempts of the same training go on in it.

    With mode `offline` all stays in `folder`, until somebody calls `wandb sync` there.
    """

    def __init__(
        self,
        run_id: str,
        project: str,
        mode: Literal["online", "offline"],
        folder: Path,
        settings: Mapping[str, Setting],
    ) -> None:
        """Raises what the client raises (wandb.errors.Error, OSError) where it may not write."""
        # Its own failures are nobody's business but the user's: it would send them to its makers.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        folder.mkdir(exist_ok=True)
        self._run: Any = wandb.init(
            project=project,
            id=run_id,
            name=run_id,
            resume="allow" if mode == "online" else None,
            mode=mode,
            dir=str(folder),
            config=dict(settings),
            # It shall send these numbers, and neither what the coordinator prints nor what the machine is like.
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                x_disable_stats=True,
                x_disable_meta=True,
            ),
        )
        self._run.define_metric(STEP)
        self._run.define_metric("*", step_metric=STEP)

    def write(self, step: int, values: Mapping[str, float], *, time_s: float) -> None:
        # Its own step may never go back, as ours does when a checkpoint is resumed: so ours is a value like others.
        self._run.log({STEP: step, "_timestamp": time_s, **values})

    def close(self) -> None:
        self._run.finish()
