"""What panels share: the rule with a title above each, and label-value lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.tui.text import cut, fit_line, line_width, width

if TYPE_CHECKING:
    from tianjictl.tui.glyphs import Glyphs
    from tianjictl.tui.text import Line, Lines, Span


def titled(title: str, cells: int, glyphs: Glyphs, *, note: str = "") -> Line:
    """`─ title ───────── note ─`: the line that begins a panel."""
    left = f"{glyphs.rule} "
    shown = cut(title, max(0, cells - 4), glyphs.ellipsis)
    room = cells - width(left) - width(shown) - 1
    if note and width(note) + 4 > room:
        note = ""
    right = f" {note} {glyphs.rule}" if note else ""
    middle = glyphs.rule * (room - width(right))
    spans: list[Span] = [(left, "rule"), (shown, "title"), (f" {middle}", "rule")]
    if note:
        spans += [(f" {note} ", "dim"), (glyphs.rule, "rule")]
    return fit_line(tuple(spans), cells, glyphs.ellipsis)


def more_line(count: int, what: str, key: str) -> Line:
    """Says that there is more than is shown, and the key that shows it."""
    return ((f"  and {count} more {what}", "dim"), (f" ({key})", "dim"))


def padded(lines: Lines, cells: int, height: int, glyphs: Glyphs) -> Lines:
    """The panel's lines in exactly its box."""
    shown = [row if line_width(row) == cells else fit_line(row, cells, glyphs.ellipsis) for row in lines[:height]]
    return shown + [((" " * cells, ""),)] * (height - len(shown))
