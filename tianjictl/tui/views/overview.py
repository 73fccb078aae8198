"""The first view: everything at once, as much of it as there is room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.tui.layout import Content, arrange
from tianjictl.tui.panels import running, training
from tianjictl.tui.panels.frame import padded

if TYPE_CHECKING:
    from collections.abc import Callable

    from tianjictl.tui.layout import Box, PanelName
    from tianjictl.tui.scene import Scene
    from tianjictl.tui.text import Line, Lines, Span

PANELS: dict[PanelName, Callable[[Scene, int, int], Lines]] = {
    "reward": training.reward,
    "rates": training.rates,
    "freshness": training.freshness,
    "limits": running.limits,
    "hosts": running.hosts,
    "components": running.components,
    "links": running.links,
    "checkpoints": running.checkpoints,
    "explanation": running.explanation,
    "events": running.events,
}


def content_of(scene: Scene) -> Content:
    """How much there is to show."""
    view = scene.view
    return Content(
        hosts=len(view.hosts),
        components=len(view.components),
        links=len(view.links),
        explanation=len(view.predicted.explanation),
        limits=len(running.limit_sentences(scene)),
        bins=len(view.freshness.lag_bins),
    )


def boxes_of(scene: Scene, width: int, height: int) -> list[Box]:
    """Where the panels of this scene are."""
    return arrange(width, height, content_of(scene))


def body(scene: Scene, width: int, height: int) -> Lines:
    """The lines between header and footer; `height` is the whole screen's."""
    boxes = boxes_of(scene, width, height)
    drawn = [
        (box, padded(PANELS[box.panel](scene, box.width, box.height), box.width, box.height, scene.glyphs))
        for box in boxes
    ]
    first = min((box.y for box in boxes), default=0)
    last = max((box.y + box.height for box in boxes), default=0)
    return [_row(drawn, y, width) for y in range(first, last)]


def _row(drawn: list[tuple[Box, Lines]], y: int, width: int) -> Line:
    """One line of the screen, put together from the panels that cross it."""
    across = sorted(
        ((box.x, box.width, lines[y - box.y]) for box, lines in drawn if box.y <= y < box.y + box.height),
        key=lambda item: item[0],
    )
    spans: list[Span] = []
    at = 0
    for x, wide, row in across:
        if x > at:
            spans.append((" " * (x - at), ""))
        spans.extend(row)
        at = x + wide
    if at < width:
        spans.append((" " * (width - at), ""))
    return tuple(spans)
