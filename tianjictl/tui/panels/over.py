"""Panels of a run that is over: averages in place of the last rates, and how to go on in place of what limits it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.states import RunState
from tianjictl.runs.afterwards import NOTHING_SAVED, after_failure, averages, way_on
from tianjictl.runs.words import duration, rate
from tianjictl.tui.panels.frame import titled
from tianjictl.tui.panels.running import checkpoint_line, told_in
from tianjictl.tui.text import clean, fit, line

if TYPE_CHECKING:
    from runtime.contract.view import RunView
    from tianjictl.tui.scene import Scene
    from tianjictl.tui.text import Lines

_CELLS = 10
_PREDICTED_FROM = 50


def rates(scene: Scene, width: int, _height: int) -> Lines:
    """Averages over the whole run, and what was predicted."""
    view, glyphs = scene.view, scene.glyphs
    lines: Lines = [titled("rates on average", width, glyphs, note=f"over {duration(view.elapsed_s)}")]
    found = averages(view)
    if found is None:
        return [*lines, line(("it ended before anything was measured", "dim"))]
    foreseen = (view.predicted.env_steps_per_s, view.predicted.updates_per_s)
    for unit, mean, predicted in zip(("env steps/s", "updates/s"), found, foreseen, strict=True):
        told = f" of {rate(predicted)} predicted" if predicted and width >= _PREDICTED_FROM else ""
        lines.append(line((f"{unit:11} ", "label"), (fit(rate(mean), _CELLS, right=True), "bold"), (told, "dim")))
    return lines


def samples(scene: Scene, width: int, _height: int) -> Lines:
    """What became of all samples: ratios and lags of the last moments say nothing afterwards."""
    glyphs, found = scene.glyphs, scene.view.samples
    lines: Lines = [titled("samples", width, glyphs, note=f"P {scene.view.freshness.pool_ratio:.3g}")]
    if not found.produced:
        return [*lines, line(("none were counted", "dim"))]
    dropped = found.dropped_stale + found.dropped_other
    return [
        *lines,
        line(("produced ", "label"), f"{found.produced:,}"),
        line(("consumed ", "label"), f"{found.consumed:,}", ("  dropped ", "label"), f"{dropped:,}"),
    ]


def going_on(scene: Scene, width: int, height: int) -> Lines:
    """The command that continues the run, or that there is nothing to continue."""
    told = [(clean(text), "accent") for text in sentences(scene.view)]
    return [titled("how to go on", width, scene.glyphs), *told_in(told, width, height - 1, scene.glyphs)]


def sentences(view: RunView) -> list[str]:
    """What can be done now, the most important first."""
    if view.state is RunState.COMPLETED:
        saved = view.checkpoints.last_step is not None
        return [
            "it has reached its end" + (f"; tianjictl eval {view.run_id} plays what it has learnt" if saved else "")
        ]
    if view.state is RunState.STOPPED:
        return [way_on(view) or NOTHING_SAVED]
    return after_failure(view, None).split(", then ")


def checkpoints(scene: Scene, _width: int, _height: int) -> Lines:
    """One line: the newest checkpoint and how many there are."""
    return [checkpoint_line(scene, "none was written")]
