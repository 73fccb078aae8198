"""The one widget that shows lines: it paints the cells that have changed, and nothing else.

Textual would paint whole rows, by way of its tree of widgets, their styles and where they overlap: more work than to
make the lines. So while nothing but the surface is on the screen, changes are written to the terminal from here.
Textual paints all that it knows of itself: the first frame, other sizes, what appears behind the palette.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tianjictl.tui.paint import difference, strip_of, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.geometry import Size

    from tianjictl.tui.text import Line, Lines

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  #: a terminal that knows them shows what is between them at once
_HOME = "\x1b[1;1H"


class Surface(Widget):
    """A rectangle of lines. `show` takes the next frame."""

    DEFAULT_CSS = "Surface { width: 1fr; height: 1fr; }"

    def __init__(self, resized: Callable[[], None], *, colour: bool, ascii_only: bool) -> None:
        super().__init__()
        self._resized = resized
        self._colour, self._ascii_only = colour, ascii_only
        self._rows: list[Line] = []
        self._painted: Size | None = None  #: the size of the last frame

    @property
    def rows(self) -> Lines:
        """What is shown."""
        return self._rows

    def show(self, rows: Lines) -> int:
        """Show `rows`; returns how many differ from those before, which alone are painted."""
        before, self._rows = self._rows, rows
        most = max(len(rows), len(before))
        changed = [y for y in range(most) if y >= len(rows) or y >= len(before) or _differ(rows[y], before[y])]
        if not changed:
            return 0
        if self._painted == self.size and self._is_alone:
            self._write(changed, before)
        else:
            self._painted = self.size
            self.refresh(*[Region(0, y, self.size.width, 1) for y in changed])
        return len(changed)

    @property
    def _is_alone(self) -> bool:
        """Nothing else is on the screen, and there is a terminal."""
        app = self.app
        return app.is_running and len(app.screen_stack) == 1 and app._driver is not None and not app.is_headless

    def _write(self, changed: list[int], before: Lines) -> None:
        parts: list[str] = []
        for y in changed:
            x, spans = difference(self._rows[y], before[y])
            text = written(spans, colour=self._colour, ascii_only=self._ascii_only)
            parts.append(f"\x1b[{y + 1};{x + 1}H{text}")
        text = f"{''.join(parts)}{_HOME}"
        driver = self.app._driver
        assert driver is not None, "looked for before"
        driver.write(f"{_BEGIN}{text}{_END}" if self.app._sync_available else text)

    def on_resize(self) -> None:
        """Another size: another layout."""
        self._resized()

    def render_line(self, y: int) -> Strip:
        """A row of the newest frame."""
        if y >= len(self._rows):
            return Strip.blank(self.size.width)
        return strip_of(self._rows[y], colour=self._colour)


def _differ(row: Line, before: Line) -> bool:
    return row is not before and row != before
