"""The one widget that shows lines: it repaints those rows that have changed, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tianjictl.tui.paint import strip_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tianjictl.tui.text import Line, Lines


class Surface(Widget):
    """A rectangle of lines. `show` takes the next frame."""

    DEFAULT_CSS = "Surface { width: 1fr; height: 1fr; }"

    def __init__(self, resized: Callable[[], None], *, colour: bool) -> None:
        super().__init__()
        self._resized = resized
        self._colour = colour
        self._rows: list[Line] = []

    @property
    def rows(self) -> Lines:
        """What is shown."""
        return self._rows

    def show(self, rows: Lines) -> int:
        """Show `rows`; returns how many differ from those before, which alone are painted."""
        before, self._rows = self._rows, rows
        changed = [
            index
            for index in range(max(len(rows), len(before)))
            if index >= len(rows) or index >= len(before) or rows[index] != before[index]
        ]
        if changed:
            width = self.size.width
            self.refresh(*[Region(0, index, width, 1) for index in changed])
        return len(changed)

    def on_resize(self) -> None:
        """Another size: another layout."""
        self._resized()

    def render_line(self, y: int) -> Strip:
        """A row of the newest frame."""
        if y >= len(self._rows):
            return Strip.blank(self.size.width)
        return strip_of(self._rows[y], colour=self._colour)
