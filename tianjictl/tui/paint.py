"""Lines of styled text as Textual draws them. Style names become the terminal's own sixteen colours, or none."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.filter import LineFilter
from textual.strip import Strip

from tianjictl.tui.text import line_width, width

if TYPE_CHECKING:
    from textual.color import Color

    from tianjictl.tui.text import Line

#: Attributes alone must do where there is no colour; colour repeats what letters and words say.
_ATTRIBUTES = {
    "bold": "bold", "dim": "dim", "reverse": "reverse", "blink": "bold", "title": "bold", "label": "dim",
    "rule": "dim", "key": "bold", "bad": "bold", "hi": "bold", "low": "dim",
}  # fmt: skip
_COLOURS = {
    "good": "green", "warn": "yellow", "bad": "red", "accent": "cyan", "curve": "cyan", "key": "cyan",
    "learner": "magenta", "actor": "green", "buffer": "cyan", "evaluator": "blue", "courier": "yellow",
}  # fmt: skip
_MARK = "x"


@lru_cache(maxsize=1024)
def style_of(names: str, *, colour: bool) -> Style:
    """The style that `names` (separated by blanks) add up to."""
    words: list[str] = []
    for name in names.split():
        if name in _ATTRIBUTES:
            words.append(_ATTRIBUTES[name])
        if colour and name in _COLOURS:
            words.append(_COLOURS[name])
    return Style.parse(" ".join(words)) if words else Style.null()


def strip_of(row: Line, *, colour: bool) -> Strip:
    """One line of a screen, as wide as it is."""
    segments = [Segment(text, style_of(style, colour=colour)) for text, style in row if text]
    return Strip(segments, line_width(row))


@lru_cache(maxsize=1024)
def _switches(names: str, *, colour: bool) -> tuple[str, str]:
    """What a terminal is sent before and after text of a style."""
    before, _, after = style_of(names, colour=colour).render(_MARK).partition(_MARK)
    return before, after


def written(row: Line, *, colour: bool, ascii_only: bool) -> str:
    """The line as a terminal is sent it, wherever its cursor is."""
    parts: list[str] = []
    for text, style in row:
        before, after = _switches(style, colour=colour)
        parts += (before, _in_ascii(text) if ascii_only and not text.isascii() else text, after)
    return "".join(parts)


def difference(row: Line, before: Line) -> tuple[int, Line]:
    """The cell at which `row` begins to differ from `before`, a line of the same width, and the spans that differ."""
    first, most = 0, min(len(row), len(before))
    while first < most and row[first] == before[first]:
        first += 1
    last = 0
    while last < most - first and row[-1 - last] == before[-1 - last]:
        last += 1
    return line_width(row[:first]), row[first : len(row) - last]


class AsciiOnly(LineFilter):
    """The last guard of a terminal that can show only ASCII: boxes become lines, the rest escapes or blanks."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's signature
        """Segments of the same widths, in ASCII."""
        return [
            segment if segment.control or segment.text.isascii() else Segment(_in_ascii(segment.text), segment.style)
            for segment in segments
        ]


@lru_cache(maxsize=1024)
def _in_ascii(text: str) -> str:
    return "".join(char if char.isascii() else _spelt(char) * width(char) for char in text)


def _spelt(char: str) -> str:
    name = unicodedata.name(char, "")
    if name.startswith("BOX DRAWINGS"):
        straight = "HORIZONTAL" in name and "VERTICAL" not in name and "DOWN" not in name and "UP" not in name
        upright = "VERTICAL" in name and not {"HORIZONTAL", "LEFT", "RIGHT"} & set(name.split())
        return "-" if straight else "|" if upright else "+"
    if "ONE EIGHTH BLOCK" in name:
        return "-"
    return "#" if "BLOCK" in name else "?" if char.isalnum() else " "
