"""The top of every view: which run, how it stands and why, how far it is; and the keys at the bottom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.runs.words import duration
from tianjictl.tui.glyphs import run_mark
from tianjictl.tui.scene import VIEWS
from tianjictl.tui.text import clean, ends, fit_line, line, line_width

if TYPE_CHECKING:
    from tianjictl.tui.scene import Scene
    from tianjictl.tui.text import Line, Lines, Span


def header(scene: Scene, width: int) -> Lines:
    """Three lines: the run and its state; the reason, or how old all this is; the numbers that only grow."""
    glyphs, view = scene.glyphs, scene.view
    mark, style = run_mark(glyphs, view.state)
    left = line((clean(view.run_id), "bold"), "  ", (f"{mark} {view.state}", f"{style} bold"))
    right: Line = ((f"{scene.view_name}", "dim"),)
    if scene.paused:
        right = (("PAUSED", "warn bold"), (" ", ""), *right)
    if scene.picture.stale:
        right = ((f"STALE {scene.picture.age_s:.0f} s", "bad bold"), ("  ", ""), *right)
    return [
        ends(left, right, width, glyphs.ellipsis),
        fit_line(_why(scene), width, glyphs.ellipsis),
        fit_line(_numbers(scene, width), width, glyphs.ellipsis),
    ]


def _why(scene: Scene) -> Line:
    view = scene.view
    if scene.picture.stale:
        problem = scene.picture.problem or "the coordinator does not answer"
        return line((f"these numbers are old: {clean(problem)}", "bad"))
    return line((clean(view.reason), ""))


def _numbers(scene: Scene, width: int) -> Line:
    view = scene.view
    present = view.shape.present if view.shape.present == view.shape.wanted else (
        f"{view.shape.present} of {view.shape.wanted}"
    )  # fmt: skip
    elapsed_s = view.elapsed_s + (scene.older_s if scene.picture.stale else 0.0)
    parts: list[Span] = [
        (clean(present), "bold" if view.shape.present == view.shape.wanted else "warn bold"),
        (duration(elapsed_s), ""),
        (f"{view.progress.env_steps:,} env steps", ""),
        (f"{view.progress.updates:,} updates", ""),
        (f"{view.reward.episodes:,} episodes", ""),
        (f"attempt {view.attempt}", ""),
        (f"version {view.progress.version:,}", ""),
    ]
    gap = f" {scene.glyphs.dot} "
    made: list[Span] = []
    for part in parts:
        longer = [*made, (gap, "dim"), part] if made else [part]
        if line_width(tuple(longer)) > width:
            break
        made = longer
    return tuple(made)


_ACTIONS = (("c", "checkpoint"), ("x", "scale"), ("S", "stop"))


def footer(scene: Scene, width: int) -> Line:
    """The keys that matter here, or what was just done, or the filter that is being typed."""
    glyphs = scene.glyphs
    if scene.typing:
        return fit_line(
            line(
                ("/", "key"), (scene.browse.filter, "bold"), ("_", "blink"), ("   Enter keeps it, Esc drops it", "dim")
            ),
            width,
            glyphs.ellipsis,
        )
    if scene.message:
        return fit_line(line((clean(scene.message), "bold")), width, glyphs.ellipsis)
    keys = [("q", "leave"), ("?", "help"), *_of_view(scene), ("space", "go on" if scene.paused else "pause")]
    if not scene.read_only:
        keys += _ACTIONS
    keys.append(("^p", "commands"))
    spans: list[Span] = []
    for key, word in keys:
        more: list[Span] = [(key, "key"), (f" {word}", "dim")]
        gap: list[Span] = [("  ", "")] if spans else []
        if line_width((*spans, *gap, *more)) > width:
            break
        spans += gap + more
    if scene.read_only and line_width(tuple(spans)) + 11 <= width:
        spans.append(("  read-only", "warn"))
    return fit_line(tuple(spans), width, glyphs.ellipsis)


def _of_view(scene: Scene) -> list[tuple[str, str]]:
    others = [("1-7", "views")]
    if scene.view_name in ("components", "hosts"):
        return [*others, ("/", "filter"), ("s", f"sort: {scene.browse.sort}"), ("l", "logs")][
            : 4 if scene.view_name == "components" else 3
        ]
    if scene.view_name in ("logs", "events", "plan", "checkpoints"):
        return [*others, ("/", "filter"), ("[ ]", "other component")][: 3 if scene.view_name == "logs" else 2]
    return others


def tabs(scene: Scene) -> Line:
    """The views and their keys, the present one marked."""
    spans: list[Span] = []
    for number, name in enumerate(VIEWS, 1):
        here = name == scene.view_name
        spans += [(f" {number} {name} ", "reverse" if here else "dim")]
    return tuple(spans)
