"""Views that are read like a page: logs, the plan, the event log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.runs.words import cores, rate
from tianjictl.tui import tables
from tianjictl.tui.panels.frame import titled
from tianjictl.tui.panels.running import event_line, event_lines
from tianjictl.tui.text import clean, fit, fit_line, line, restyled, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.contract.plan import Placement, Plan
    from runtime.contract.view import Event
    from tianjictl.tui.scene import Browse, Scene
    from tianjictl.tui.text import Line, Lines


def listed_lines(scene: Scene) -> list[str]:
    """The lines of the log that the filter lets through."""
    return [text for text in scene.extra.log or () if tables.matches(scene.browse.filter, text)]


def listed_events(scene: Scene) -> list[Event]:
    """The events that the filter lets through."""
    known = scene.extra.events if scene.extra.events is not None else scene.view.events
    return [event for event in known if tables.matches(scene.browse.filter, event.kind, event.message, event.id)]


def cursor_in(items: Sequence[object], browse: Browse) -> int:
    """Which item the cursor is on, of a view that follows its end: the last one unless scrolled back."""
    return max(0, len(items) - 1 - browse.back)


def logs(scene: Scene, width: int, height: int) -> Lines:
    """The newest lines of one component's logs; it follows unless scrolled back."""
    glyphs, extra = scene.glyphs, scene.extra
    name = extra.log_of or "no component"
    if extra.log is None:
        return [titled(f"logs of {clean(name)}", width, glyphs), line((extra.problem or "reading", "dim"))]
    shown = listed_lines(scene)
    note = clean(extra.problem) or (f"{scene.browse.back} back" if scene.browse.back else "following")
    title = f"logs of {clean(name)}" + (f", filter {scene.browse.filter}" if scene.browse.filter else "")
    lines: Lines = [titled(title, width, glyphs, note=note)]
    if not shown:
        told = "no line matches" if scene.browse.filter else extra.problem or "nothing has been written there"
        return [*lines, line((told, "dim"))]
    at = cursor_in(shown, scene.browse)
    for index in _page(len(shown), at, height - 1):
        row = fit_line(line(glyphs.shown(clean(shown[index]))), width, glyphs.ellipsis)
        lines.append(restyled(row, "reverse") if index == at and scene.browse.back else row)
    return lines


def _page(count: int, cursor: int, room: int) -> range:
    """`room` of so many items, with the cursor on the last of them, or further up at the beginning."""
    last = max(min(count, room), cursor + 1)
    return range(max(0, last - room), last)


def plan(scene: Scene, width: int, height: int) -> Lines:
    """What was planned: the explanation, the sizes, and who is where; scrolls from the top."""
    glyphs, found = scene.glyphs, scene.extra.plan
    if found is None:
        return [titled("plan", width, glyphs), line((scene.extra.problem or "reading", "dim"))]
    rows = _plan_rows(scene, found, width)
    first = min(scene.browse.cursor, max(0, len(rows) - height + 1))
    note = f"{first + 1}-{min(len(rows), first + height - 1)} of {len(rows)} lines" if len(rows) >= height else ""
    title = f"plan {clean(found.shape)}, revision {found.revision}, {clean(found.solver)}"
    return [titled(title, width, glyphs, note=note), *rows[first : first + height - 1]]


def _plan_rows(scene: Scene, found: Plan, width: int) -> Lines:
    glyphs = scene.glyphs
    predicted, sizes = found.predicted, found.sizes
    texts = [*(scene.view.predicted.explanation or predicted.explanation), *found.notes]
    rows: Lines = []
    if predicted.samples_per_s is not None:
        rows.append(
            line(("predicted ", "label"), f"{rate(predicted.env_steps_per_s)} env steps/s, ",
                 f"{rate(predicted.samples_per_s)} samples/s, {rate(predicted.updates_per_s)} updates/s")
        )  # fmt: skip
    for text in texts:
        rows += [line(row) for row in wrap(glyphs.shown(clean(text)), width, 4, glyphs.ellipsis)]
    told = f"{sizes.num_envs} envs an actor, rollout {sizes.rollout}, batch {sizes.batch_size:,}, "
    told += f"buffer {sizes.buffer_size:,}, P {sizes.pool_ratio:.3g} of at most {sizes.staleness_tolerance:g}"
    first, *more = wrap(told, max(1, width - len("sizes ")), 3, glyphs.ellipsis) or [""]
    rows += [line(("sizes ", "label"), first), *(line(f"      {row}") for row in more)]
    placements = [
        placed
        for placed in found.placements
        if tables.matches(scene.browse.filter, placed.name, placed.role, placed.host)
    ]
    name = max((len(placed.name) for placed in placements), default=9)
    host = max((len(placed.host) for placed in placements), default=4)
    rows += [(), line((f"{fit('component', name)}  {fit('host', host)}  group  threads  cores", "label"))]
    return rows + [_placement(placed, name, host) for placed in placements]


def _placement(placed: Placement, name: int, host: int) -> Line:
    leaving = "  leaving" if placed.leaving else ""
    return line(
        (fit(clean(placed.name), name), placed.role.value),
        f"  {fit(clean(placed.host), host)}  {placed.group:>5}  {placed.threads:>7}  {cores(placed.cores)}{leaving}",
    )


def events(scene: Scene, width: int, height: int) -> Lines:
    """The event log, the newest at the bottom; the one under the cursor is wrapped where there is room."""
    glyphs, shown = scene.glyphs, listed_events(scene)
    known = scene.extra.events if scene.extra.events is not None else scene.view.events
    title = f"events {len(known)}" + (f", filter {scene.browse.filter}" if scene.browse.filter else "")
    note = f"{scene.browse.back} back" if scene.browse.back else "following"
    lines: Lines = [titled(title, width, glyphs, note=note)]
    if not shown:
        return [*lines, line(("no event matches" if scene.browse.filter else "no events yet", "dim"))]
    at, room = cursor_in(shown, scene.browse), height - 1
    chosen = event_lines(shown[at], width, glyphs, max(1, room // 2, room + 1 - len(shown)))
    for index in _page(len(shown), at, room - len(chosen) + 1):
        if index == at:
            lines += [restyled(fit_line(row, width, glyphs.ellipsis), "reverse") for row in chosen]
        else:
            lines.append(event_line(shown[index], width, glyphs))
    return lines
