"""Plots as plain text: a curve, upright bars, a level meter. Numbers in, strings out."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.tui.glyphs import Glyphs, Plot

Points = tuple[tuple[float, float], ...]
Columns = list[int]  #: the dots of each column: bit 0 is the lowest


def _braille_bits(from_the_bottom: tuple[int, ...]) -> tuple[int, ...]:
    """Bits of a braille character for each set of four dots above each other."""
    return tuple(sum(bit for dot, bit in enumerate(from_the_bottom) if dots >> dot & 1) for dots in range(16))


_LEFT, _RIGHT = _braille_bits((0x40, 0x04, 0x02, 0x01)), _braille_bits((0x80, 0x20, 0x10, 0x08))
_FINENESS = {"braille": (2, 4), "block": (1, 8), "ascii": (1, 2)}  #: dots in a cell: across, upright
_LEAST_GAP_S = 10.0
_GAP_STEPS = 6.0


def curve(points: Points, width: int, height: int, low: float, high: float, kind: Plot) -> tuple[str, ...]:
    """A curve of (seconds, value) over `width`×`height` cells, values from `low` to `high`.

    Where nothing was heard for long there is a gap: it is not bridged.
    """
    across, upright = _FINENESS[kind]
    columns: Columns = [0] * (width * across)
    placed = _placed(points, width * across, height * upright, low, high)
    longest = _longest_step(points)
    for number, (x, y) in enumerate(placed):
        columns[x] |= 1 << y
        if number and points[number][0] - points[number - 1][0] <= longest:
            _join(columns, placed[number - 1], (x, y))
    if kind == "braille":
        return tuple(_braille_row(columns, row, height) for row in range(height))
    if kind == "block":
        return tuple(_block_row(columns, row, height) for row in range(height))
    return tuple(_ascii_row(columns, row, height) for row in range(height))


def _placed(points: Points, wide: int, high_dots: int, low: float, high: float) -> list[tuple[int, int]]:
    """Dots of the points: column from the left, row from the bottom."""
    if not points:
        return []
    first, last = points[0][0], points[-1][0]
    span_s = (last - first) or 1.0
    span = (high - low) or 1.0
    return [
        (
            round((at - first) / span_s * (wide - 1)),
            min(high_dots - 1, max(0, round((value - low) / span * (high_dots - 1)))),
        )
        for at, value in points
    ]


def _longest_step(points: Points) -> float:
    """Steps longer than this, in seconds, are gaps."""
    steps = sorted(later[0] - earlier[0] for earlier, later in pairwise(points))
    return max(_LEAST_GAP_S, _GAP_STEPS * steps[len(steps) // 2]) if steps else _LEAST_GAP_S


def _join(columns: Columns, start: tuple[int, int], end: tuple[int, int]) -> None:
    (x0, y0), (x1, y1) = start, end
    before = y0
    for x in range(x0 + 1, x1 + 1):
        y = round(y0 + (y1 - y0) * (x - x0) / (x1 - x0))
        # Upright, it begins beside the dot before: above or below it.
        columns[x] |= _dots(before + 1, y) if y > before else _dots(y, max(y, before - 1))
        before = y
    if x0 == x1:
        columns[x0] |= _dots(min(y0, y1), max(y0, y1))


def _dots(low: int, high: int) -> int:
    """All dots from `low` to `high`."""
    return (2 << high) - (1 << low)


def _braille_row(columns: Columns, row: int, height: int) -> str:
    base = (height - row - 1) * 4
    pairs = zip(columns[::2], columns[1::2], strict=True)
    return "".join(
        chr(0x2800 + bits) if (bits := _LEFT[left >> base & 15] | _RIGHT[right >> base & 15]) else " "
        for left, right in pairs
    )


def _block_row(columns: Columns, row: int, height: int) -> str:
    """Filled from the bottom up to the highest dot; halves are the finest that every font has."""
    base = (height - row - 1) * 8
    filled = [dots.bit_length() - base for dots in columns]
    return "".join("█" if eighths >= 6 else "▄" if eighths > 0 else " " for eighths in filled)


def _ascii_row(columns: Columns, row: int, height: int) -> str:
    base = (height - row - 1) * 2
    return "".join(" .':"[dots >> base & 3] for dots in columns)


def bars(values: Sequence[float], height: int, glyphs: Glyphs) -> list[str]:
    """Upright bars, one cell wide, the highest `height` cells; what is not zero shows at least a trace."""
    steps = len(glyphs.bars) - 1
    most = max(values, default=0.0)
    levels = [max(1, round(value / most * height * steps)) if value > 0 else 0 for value in values]
    rows = []
    for row in range(height):
        base = (height - row - 1) * steps
        rows.append("".join(glyphs.bars[min(steps, max(0, level - base))] for level in levels))
    return rows


def meter(share: float, width: int, glyphs: Glyphs) -> str:
    """A level from 0 to 1 as a bar of `width` cells."""
    steps = len(glyphs.meter) - 1
    filled = round(min(1.0, max(0.0, share)) * width * steps)
    whole, part = divmod(filled, steps)
    shown = glyphs.meter[-1] * whole + (glyphs.meter[part] if part else "")
    return shown + " " * (width - len(shown))
