"""The first view: everything at once, as much of it as there is room for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tianjictl.runs.afterwards import is_over
from tianjictl.tui.layout import Content, arrange
from tianjictl.tui.panels import over, running, training
from tianjictl.tui.panels.frame import padded
from tianjictl.tui.text import wrap

if TYPE_CHECKING:
    from collections.abc import Callable

    from tianjictl.tui.glyphs import Glyphs
    from tianjictl.tui.layout import Box, PanelName
    from tianjictl.tui.scene import Scene
    from tianjictl.tui.text import Line, Lines, Span

_MOST_ROWS = 4  #: of one sentence on what limits the run


@dataclass(frozen=True, slots=True)
class Panel:
    """How a panel is drawn, and the parts of the view that it is drawn from: it changes only where they do."""

    draw: Callable[[Scene, int, int], Lines]
    parts: tuple[str, ...]
    ages: bool = False  #: it shows ages, which grow where the picture is old

    def made_from(self, scene: Scene, box: Box) -> tuple[object, ...]:
        """All that the panel's lines depend on."""
        view, older_s = scene.view, scene.older_s if self.ages else 0.0
        parts = [getattr(view, part) for part in self.parts]
        return (box.width, box.height, self.draw, scene.glyphs, older_s, *parts)


PANELS: dict[PanelName, Panel] = {
    "reward": Panel(training.reward, ("reward",)),
    "rates": Panel(training.rates, ("rates", "predicted")),
    "freshness": Panel(training.freshness, ("freshness",)),
    "limits": Panel(running.limits, ("bottleneck", "drift", "advice")),
    "hosts": Panel(running.hosts, ("hosts", "components")),
    "components": Panel(running.components, ("components",), ages=True),
    "links": Panel(running.links, ("links",)),
    "checkpoints": Panel(running.checkpoints, ("checkpoints", "links", "samples"), ages=True),
    "explanation": Panel(running.explanation, ("predicted",)),
    "events": Panel(running.events, ("events",)),
}

#: Of a run that is over nothing is told as if it were so now.
PANELS_AFTERWARDS: dict[PanelName, Panel] = {
    **PANELS,
    "rates": Panel(over.rates, ("elapsed_s", "progress", "predicted")),
    "freshness": Panel(over.samples, ("freshness", "samples")),
    "limits": Panel(over.going_on, ("run_id", "state", "checkpoints")),
    "checkpoints": Panel(over.checkpoints, ("checkpoints",), ages=True),
}


def panels_of(scene: Scene) -> dict[PanelName, Panel]:
    """How this scene's panels are drawn."""
    return PANELS_AFTERWARDS if is_over(scene.view) else PANELS


def content_of(scene: Scene, width: int) -> Content:
    """How much there is to show."""
    view = scene.view
    if is_over(view):
        return Content(
            hosts=len(view.hosts),
            components=len(view.components),
            explanation=len(view.predicted.explanation),
            limits=len(told := over.sentences(view)),
            bins=0,
            limit_rows=_rows(tuple(told), width),
        )
    return Content(
        hosts=len(view.hosts),
        components=len(view.components),
        links=len(view.links),
        explanation=len(view.predicted.explanation),
        limits=running.limit_count(scene),
        bins=len(view.freshness.lag_bins),
        limit_rows=_rows(tuple(text for text, _style in running.limit_sentences(scene)), width),
    )


@lru_cache(maxsize=4)
def _rows(sentences: tuple[str, ...], width: int) -> int:
    return sum(len(wrap(text, max(1, width), _MOST_ROWS)) for text in sentences)


def boxes_of(scene: Scene, width: int, height: int) -> list[Box]:
    """Where the panels of this scene are."""
    return arrange(width, height, content_of(scene, width))


@dataclass(slots=True)
class _Drawn:
    """A panel as it was last drawn."""

    made_from: tuple[object, ...]
    lines: Lines
    in_box: Lines  #: each as wide as the box, and as many as are high

    def again(self, lines: Lines, box: Box, glyphs: Glyphs) -> Lines:
        """`lines` in a box; those that are as before are not measured again."""
        if self.made_from[:2] != (box.width, box.height) or len(lines) != len(self.lines):
            return padded(lines, box.width, box.height, glyphs)
        return [
            known if row == before else padded([row], box.width, 1, glyphs)[0]
            for row, before, known in zip(lines, self.lines, self.in_box, strict=False)
        ] + self.in_box[len(lines) :]


class Overview:
    """The overview, frame after frame: panels and lines that have not changed are those of the frame before."""

    def __init__(self) -> None:
        self._size = (0, 0)
        self._boxes: list[Box] = []
        self._across: list[list[tuple[Box, int]]] = []
        self._drawn: dict[PanelName, _Drawn] = {}
        self._pieces: list[Lines] = []  #: what each row is put together from
        self._rows: Lines = []

    def body(self, scene: Scene, width: int, height: int) -> Lines:
        """The lines between header and footer; `height` is the whole screen's."""
        boxes = boxes_of(scene, width, height)
        if boxes != self._boxes or self._size != (width, height):
            self._begin(boxes, width, height)
        for box in boxes:
            self._draw(scene, box)
        for y, crossing in enumerate(self._across):
            pieces = [self._drawn[box.panel].in_box[index] for box, index in crossing]
            if pieces != self._pieces[y]:
                self._pieces[y] = pieces
                self._rows[y] = _row(crossing, pieces, width)
        return list(self._rows)

    def _begin(self, boxes: list[Box], width: int, height: int) -> None:
        """Other places: the rows are put together anew."""
        self._boxes, self._size = boxes, (width, height)
        self._across = _crossing(boxes)
        self._pieces = [[] for _ in self._across]
        self._rows = [((" " * width, ""),) for _ in self._across]

    def _draw(self, scene: Scene, box: Box) -> None:
        panel, known = panels_of(scene)[box.panel], self._drawn.get(box.panel)
        made_from = panel.made_from(scene, box)
        if known is not None and known.made_from == made_from:
            return
        lines = panel.draw(scene, box.width, box.height)
        if known is not None:
            in_box = known.again(lines, box, scene.glyphs)
        else:
            in_box = padded(lines, box.width, box.height, scene.glyphs)
        self._drawn[box.panel] = _Drawn(made_from, lines, in_box)


def _crossing(boxes: list[Box]) -> list[list[tuple[Box, int]]]:
    """For each row the panels that cross it, from the left, and which of their lines is there."""
    first = min((box.y for box in boxes), default=0)
    last = max((box.y + box.height for box in boxes), default=0)
    ordered = sorted(boxes, key=lambda box: box.x)
    return [[(box, y - box.y) for box in ordered if box.y <= y < box.y + box.height] for y in range(first, last)]


def _row(crossing: list[tuple[Box, int]], pieces: Lines, width: int) -> Line:
    """One line of the screen, put together from the panels that cross it."""
    spans: list[Span] = []
    at = 0
    for (box, _index), piece in zip(crossing, pieces, strict=True):
        if box.x > at:
            spans.append((" " * (box.x - at), ""))
        spans.extend(piece)
        at = box.x + box.width
    if at < width:
        spans.append((" " * (width - at), ""))
    return tuple(spans)
