"""Panels on the training itself: the return, the rates beside the predicted ones, the freshness of the samples."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from tianjictl.runs.words import duration, number, rate
from tianjictl.tui import plots
from tianjictl.tui.panels.frame import titled
from tianjictl.tui.text import ends, fit, line, line_width

if TYPE_CHECKING:
    from runtime.contract.view import RunView
    from tianjictl.tui.glyphs import Glyphs
    from tianjictl.tui.scene import Scene
    from tianjictl.tui.text import Line, Lines, Span

_RATIO = 7  #: cells for measured / predicted
_PREDICTED_FROM = 39
_AXIS = 7  #: cells for the labels of the values


def reward(scene: Scene, width: int, height: int) -> Lines:
    """The mean return over time, with the newest and the best mean of 100 episodes."""
    glyphs, found = scene.glyphs, scene.view.reward
    lines: Lines = [titled("return", width, glyphs, note=_evaluated(scene.view))]
    rows = height - 2
    if rows >= 1:
        lines += _plot(found.history, width, rows, glyphs)
    if found.mean_100 is not None:
        told = line(
            ("mean of 100 ", "label"), (number(found.mean_100), "bold"),
            ("  best ", "label"), number(found.best_mean_100),
        )  # fmt: skip
    elif found.mean is not None:
        told = line(("mean so far ", "label"), (number(found.mean), "bold"))
    else:
        told = line(("no episode has ended yet", "dim"))
    span: Line = ()
    if len(found.history) > 1:
        span = ((f"  last {duration(found.history[-1][0] - found.history[0][0])}", "dim"),)
    if line_width(told) + line_width(span) > width:
        span = ()
    return [*lines, ends(told, span, width, glyphs.ellipsis)]


def _evaluated(view: RunView) -> str:
    found = view.reward
    if found.evaluation_mean is None:
        return ""
    return f"evaluator {number(found.evaluation_mean)} at version {found.evaluation_version}"


@lru_cache(maxsize=4)
def _plot(history: plots.Points, width: int, rows: int, glyphs: Glyphs) -> Lines:
    """The curve with its axis; a point comes about once a second, between which it is as it was."""
    if not history:
        return [()] * rows
    values = [value for _at, value in history]
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 1.0, high + 1.0
    drawn = plots.curve(history, max(1, width - _AXIS - 1), rows, low, high, glyphs.plot)
    lines: Lines = []
    for row, text in enumerate(drawn):
        label = ""
        if row == 0:
            label = _value(high)
        elif row == rows - 1:
            label = _value(low)
        elif row == rows // 2 and rows >= 7:
            label = _value(high - (high - low) * row / (rows - 1))
        lines.append(line((fit(label, _AXIS, right=True), "dim"), (glyphs.bar, "rule"), (text, "curve")))
    return lines


def _value(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}" if abs(value) < 100_000 else f"{value:.1e}"


def rates(scene: Scene, width: int, height: int) -> Lines:
    """Measured rates, what was predicted, and the one in percent of the other."""
    view, glyphs = scene.view, scene.glyphs
    known = view.predicted.env_steps_per_s is not None or view.predicted.samples_per_s is not None
    lines: Lines = [titled("rates", width, glyphs, note="" if known else "nothing predicted")]
    cells = min(16, max(9, (width - 13 - _RATIO) // 2))
    if height >= 5:
        heads = " ".join(fit(word, cells, right=True) for word in ("measured", "predicted"))
        lines.append(line((f"{'':11} {heads} {fit('ratio', _RATIO - 1, right=True)}", "label")))
    for unit, measured, predicted in (
        ("env steps/s", view.rates.env_steps_per_s, view.predicted.env_steps_per_s),
        ("samples/s", view.rates.samples_per_s, view.predicted.samples_per_s),
        ("updates/s", view.rates.updates_per_s, view.predicted.updates_per_s),
    ):
        lines.append(_rate_row(unit, measured, predicted, cells, wide=width >= _PREDICTED_FROM))
    return lines


def _rate_row(unit: str, measured: float, predicted: float | None, cells: int, *, wide: bool) -> Line:
    spans: list[Span] = [
        (f"{unit:11} ", "label"),
        (fit(rate(measured), cells, right=True), "bold"),
        (" ", ""),
    ]
    if wide:
        spans += [(fit(rate(predicted), cells, right=True), ""), (" ", "")]
    if predicted:
        ratio = measured / predicted
        spans.append((fit(f"{ratio:.0%}", _RATIO - 1, right=True), _ratio_style(ratio)))
    return tuple(spans)


def _ratio_style(ratio: float) -> str:
    return "good" if ratio >= 0.85 else "warn" if ratio >= 0.5 else "bad"


def freshness(scene: Scene, width: int, height: int) -> Lines:
    """How old the samples are that the learner uses: P, flow, staleness, lag and its histogram."""
    fresh, glyphs = scene.view.freshness, scene.glyphs
    lag = fresh.version_lag
    note = f"{fresh.staleness_ratio:.1%} stale"
    lines: Lines = [titled("freshness", width, glyphs, note=note)]
    lines.append(line(("P ", "label"), f"{fresh.pool_ratio:.3g}", ("  flow ", "label"), f"{fresh.flow_ratio:.2f}",
                      ("  mean lag ", "label"), f"{lag.mean:.1f}"))  # fmt: skip
    lines.append(line(("lag p50 ", "label"), str(lag.p50), ("  p95 ", "label"), str(lag.p95), ("  max ", "label"),
                      str(lag.max)))  # fmt: skip
    room = height - len(lines)
    bins = fresh.lag_bins
    if room < 1 or not bins:
        return lines
    if room >= min(3, len(bins) + 1) and width >= 30 and room >= len(bins):
        return lines + _lying_bars(bins, width, scene)
    return lines + _upright_bars(bins, width, room, scene)


def _lying_bars(bins: tuple[tuple[int, int], ...], width: int, scene: Scene) -> Lines:
    total = sum(count for _lag, count in bins) or 1
    wide = max(len(str(lag)) for lag, _count in bins)
    room = width - wide - 13
    lines: Lines = []
    for lag, count in bins:
        level = plots.meter(count / total, room, scene.glyphs)
        lines.append(line((f"lag {lag:>{wide}} ", "label"), (level, "curve"), f" {count / total:6.1%}"))
    return lines


def _upright_bars(bins: tuple[tuple[int, int], ...], width: int, room: int, scene: Scene) -> Lines:
    """One bar for each bin, of the same breadth, with the first and the last lag beside it."""
    first, last = f"lag {bins[0][0]} ", f" {bins[-1][0]}"
    shown = bins[-max(1, width - len(first) - len(last)) :]
    breadth = max(1, min(4, (width - len(first) - len(last)) // len(shown)))
    rows = plots.bars([count for _lag, count in shown], room, scene.glyphs)
    lines: Lines = []
    for index, row in enumerate(rows):
        wide = "".join(cell * breadth for cell in row)
        bottom = index == len(rows) - 1
        left, right = (first, last) if bottom else (" " * len(first), "")
        lines.append(line((left, "label"), (wide, "curve"), (right, "label")))
    return lines
