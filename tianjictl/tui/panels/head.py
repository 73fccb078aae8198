"""The top of every view: which run, how it stands and why, how far it is; and the keys at the bottom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.runs.afterwards import is_over
from tianjictl.runs.words import duration
from tianjictl.tui.glyphs import run_mark
from tianjictl.tui.scene import VIEWS
from tianjictl.tui.text import clean, ends, fit_line, fitting, line, line_width

if TYPE_CHECKING:
    from tianjictl.tui.scene import Scene
    from tianjictl.tui.text import Line, Lines, Span

_TABS_FROM = 118  #: columns
_NAME_FIRST_FROM = 60  #: where there are fewer, the state must not be what is cut
_ACTIONS = (("c", "checkpoint"), ("x", "scale"), ("S", "stop"))


def header(scene: Scene, width: int) -> Lines:
    """Three lines: the run and its state; the reason, or how old all this is; the numbers that only grow."""
    glyphs, view = scene.glyphs, scene.view
    mark, style = run_mark(glyphs, view.state)
    state: Span = (f"{mark} {view.state}", f"{style} bold")
    name: Span = (clean(view.run_id), "bold")
    left = line(name, "  ", state) if width >= _NAME_FIRST_FROM else line(state, "  ", name)
    marks: list[Line] = []
    if scene.picture.stale:
        marks.append(((f"STALE {scene.picture.age_s:.0f} s", "bad bold"),))
    if scene.paused:
        marks.append((("PAUSED", "warn bold"),))
    why = _why(scene)
    wide = width >= _TABS_FROM and line_width(why) + 2 + line_width(tabs(scene)) <= width
    if not wide:
        marks.append(((scene.view_name, "dim"),))
    right = fitting(marks, ("  ", ""), width - 2)
    return [
        ends(left, (("  ", ""), *right) if right else (), width, glyphs.ellipsis),
        ends(why, tabs(scene) if wide else (), width, glyphs.ellipsis),
        fit_line(_numbers(scene, width), width, glyphs.ellipsis),
    ]


def _why(scene: Scene) -> Line:
    view = scene.view
    if scene.picture.stale:
        problem = scene.picture.problem or "the coordinator does not answer"
        return line((scene.glyphs.shown(f"these numbers are old: {clean(problem)}"), "bad"))
    return line(scene.glyphs.shown(clean(view.reason)))


def _numbers(scene: Scene, width: int) -> Line:
    view = scene.view
    whole = is_over(view) or view.shape.present == view.shape.wanted
    present = view.shape.wanted if whole else f"{view.shape.present} of {view.shape.wanted}"
    elapsed_s = view.elapsed_s + (scene.older_s if scene.picture.stale else 0.0)
    texts = [
        duration(elapsed_s),
        f"{view.progress.env_steps:,} env steps",
        f"{view.progress.updates:,} updates",
        f"{view.reward.episodes:,} episodes",
        f"attempt {view.attempt}",
        f"version {view.progress.version:,}",
    ]
    parts: list[Line] = [((clean(present), "bold" if whole else "warn bold"),), *(((text, ""),) for text in texts)]
    return fitting(parts, (f" {scene.glyphs.dot} ", "dim"), width)


def footer(scene: Scene, width: int) -> Line:
    """The keys that matter here, or what was just done, or the filter that is being typed."""
    glyphs = scene.glyphs
    if scene.typing:
        typed = line(("/", "key"), (scene.browse.filter, "bold"), ("_", "blink"))
        return ends(typed, (("  Enter keeps it, Esc drops it", "dim"),), width, glyphs.ellipsis)
    if scene.message:
        return fit_line(line((glyphs.shown(clean(scene.message)), "bold")), width, glyphs.ellipsis)
    keys = [("q", "leave"), ("?", "help"), *_of_view(scene), ("space", "go on" if scene.paused else "pause")]
    if not scene.read_only and not is_over(scene.view):
        keys += _ACTIONS
    keys.append(("^p", "commands"))
    parts: list[Line] = [((key, "key"), (f" {word}", "dim")) for key, word in keys]
    if scene.read_only:
        parts.insert(1, (("read-only", "warn"),))
    return fit_line(fitting(parts, ("  ", ""), width), width, glyphs.ellipsis)


def _of_view(scene: Scene) -> list[tuple[str, str]]:
    keys = [("1-7", "views")]
    if scene.view_name != "overview":
        keys.append(("/", "filter"))
    if scene.view_name in ("components", "hosts"):
        keys.append(("s", f"sort: {scene.browse.sort}"))
    if scene.view_name == "components":
        keys += [("Enter", "log"), ("v", "whole")]
    elif scene.view_name == "overview":
        keys.append(("v", "whole"))
    elif scene.view_name != "plan":
        keys.append(("Enter", "whole"))
    if scene.view_name == "logs":
        keys.append(("[ ]", "others"))
    return keys


def tabs(scene: Scene) -> Line:
    """The views and their keys, the present one marked."""
    spans: list[Span] = []
    for number, name in enumerate(VIEWS, 1):
        spans.append((f" {number} {name} ", "reverse" if name == scene.view_name else "dim"))
    return tuple(spans)
