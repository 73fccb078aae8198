"""All places that the numbers of one run go to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from runtime.contract.job import needed_modules
from runtime.metrics.piped import CLOSE_WITHIN_S, Piped
from runtime.metrics.settings import settings_of
from runtime.metrics.sinks import FanOut, JsonLines, Thinned
from runtime.metrics.tensorboard import TensorBoard

if TYPE_CHECKING:
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Plan
    from runtime.metrics.sinks import MetricSink


def open_sinks(paths: RunPaths, plan: Plan, *, close_within_s: float = CLOSE_WITHIN_S) -> MetricSink:
    """The run's own files, and what its job asks for; nothing is loaded or started before the first point."""
    command = (sys.executable, "-m", "runtime", "tracker", str(paths.root))
    trackers = [Piped(name, (*command, name), close_within_s=close_within_s) for name in needed_modules(plan.job)]
    own = (JsonLines(paths.metrics), TensorBoard(paths.tensorboard, settings_of(plan)))
    return Thinned(FanOut([*own, *trackers]))
