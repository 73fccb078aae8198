"""Lines of styled text, measured in terminal cells: what every panel is made of. Nothing here knows a terminal."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from tianjictl.runs.words import visible

Span = tuple[str, str]  #: text, and the name of its style (`paint.py`); several names are separated by a blank
Line = tuple[Span, ...]
Lines = list[Line]


_UNSHOWN = ("Cf", "Cc", "Cs", "Zl", "Zp", "Co", "Cn")
#: Anything but Latin letters, punctuation, arrows, boxes, blocks and braille, which take one cell each.
_ODD = re.compile("[^\x00-\u02ff\u2010-\u2027\u2190-\u21ff\u2500-\u25fc\u2800-\u28ff]")


def clean(text: object) -> str:
    """Foreign text fit for one line: nothing that moves the cursor, turns the writing round or joins characters."""
    shown = str(text)
    if shown.isprintable() and (shown.isascii() or _ODD.search(shown) is None):
        return shown
    shown = visible(shown.replace("\n", " ").replace("\t", " "))
    return "".join(f"\\u{ord(char):04x}" if unicodedata.category(char) in _UNSHOWN else char for char in shown)


def width(text: str) -> int:
    """Cells that `text` takes: two for wide characters of East Asian writing, none for combining marks."""
    return len(text) if text.isascii() or _ODD.search(text) is None else _odd_width(text)


@lru_cache(maxsize=4096)
def _odd_width(text: str) -> int:
    return sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, cells: int, ellipsis: str = "…") -> str:
    """At most `cells` cells of `text`; what was cut is told by the ellipsis."""
    if width(text) <= cells:
        return text
    room = cells - width(ellipsis)
    if room < 0:
        return ellipsis[: max(0, cells)]
    return _prefix(text, room) + ellipsis


def _prefix(text: str, cells: int) -> str:
    if text.isascii():
        return text[:cells]
    taken, used = [], 0
    for char in text:
        used += _cells(char)
        if used > cells:
            break
        taken.append(char)
    return "".join(taken)


def fit(text: str, cells: int, *, right: bool = False, ellipsis: str = "…") -> str:
    """Exactly `cells` cells: cut or padded."""
    used = width(text)
    if used > cells:
        text = cut(text, cells, ellipsis)
        used = width(text)
    return " " * (cells - used) + text if right else text + " " * (cells - used)


def line(*spans: Span | str) -> Line:
    """A line of spans; a bare string has no style."""
    return tuple((span, "") if isinstance(span, str) else span for span in spans)


def line_width(spans: Line) -> int:
    """Cells of a line."""
    return width("".join([text for text, _style in spans]))


def fit_line(spans: Line, cells: int, ellipsis: str = "…") -> Line:
    """The line in exactly `cells` cells: cut with an ellipsis, or padded."""
    used = line_width(spans)
    if used == cells:
        return spans
    if used < cells:
        return (*spans, (" " * (cells - used), ""))
    kept: list[Span] = []
    left = cells
    for text, style in spans:
        wide = width(text)
        if wide >= left:
            # What follows is cut too: the mark belongs here even where this span itself would fit.
            shown = cut(text + ellipsis, left, ellipsis) if wide == left else cut(text, left, ellipsis)
            kept.append((shown + " " * (left - width(shown)), style))
            break
        kept.append((text, style))
        left -= wide
    return tuple(kept)


def ends(left: Line, right: Line, cells: int, ellipsis: str = "…") -> Line:
    """`left` and `right` at the two ends of a line; the left gives way."""
    room = cells - line_width(right)
    if room < 8 and line_width(left) > room:
        return fit_line(left, cells, ellipsis)
    return (*fit_line(left, room, ellipsis), *right)


def fitting(parts: list[Line], gap: Span, cells: int) -> Line:
    """As many of `parts`, from the first on, as fit whole."""
    made: list[Span] = []
    left = cells
    for part in parts:
        needed = line_width(part) + (width(gap[0]) if made else 0)
        if needed > left and made:
            break
        made += [gap, *part] if made else part
        left -= needed
    return tuple(made)


def beside(columns: list[tuple[Lines, int]], height: int, gap: str = "  ", ellipsis: str = "…") -> Lines:
    """Blocks of lines next to each other, each with its width, all `height` lines high."""
    rows: Lines = []
    for index in range(height):
        row: list[Span] = []
        for number, (lines, cells) in enumerate(columns):
            if number and gap:
                row.append((gap, ""))
            row.extend(fit_line(lines[index] if index < len(lines) else (), cells, ellipsis))
        rows.append(tuple(row))
    return rows


def restyled(spans: Line, style: str) -> Line:
    """The line with one more style over all of it."""
    return tuple((text, f"{known} {style}" if known else style) for text, known in spans)


def wrap(text: str, cells: int, most: int, ellipsis: str = "…") -> list[str]:
    """`text` over at most `most` lines, broken at blanks; what does not fit is cut."""
    lines: list[str] = []
    current = ""
    words = text.split(" ")
    for number, word in enumerate(words):
        longer = f"{current} {word}" if current else word
        if width(longer) <= cells:
            current = longer
            continue
        if len(lines) == most - 1:
            lines.append(cut(" ".join([*([current] if current else []), *words[number:]]), cells, ellipsis))
            return lines
        if current:
            lines.append(current)
        current = word if width(word) <= cells else cut(word, cells, ellipsis)
    return [*lines, current] if current else lines


def fold(text: str, cells: int) -> list[str]:
    """All of `text` over as many lines as it takes, broken at blanks, and within words that are longer than a line."""
    lines: list[str] = []
    current = ""
    for word in text.split(" "):
        longer = f"{current} {word}" if current else word
        if width(longer) <= cells:
            current = longer
            continue
        if current:
            lines.append(current)
        rest = word
        while width(rest) > cells:
            piece = _prefix(rest, cells) or rest[:1]
            lines.append(piece)
            rest = rest[len(piece) :]
        current = rest
    return [*lines, current] if current or not lines else lines


def plain(lines: Lines) -> list[str]:
    """The text alone, without trailing blanks: what tests compare and pipes get."""
    return ["".join(text for text, _style in spans).rstrip() for spans in lines]
