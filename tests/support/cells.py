"""What a terminal shows after all that it was sent: enough of one for programs that place the cursor and write."""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"\x1b\[(?P<values>[0-9;]*)(?P<act>[Hm])"
    r"|\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]P][^\x07\x1b]*(?:\x07|\x1b\\)|[()].|[=>78])"
    r"|(?P<control>[\x00-\x1f])"
    r"|(?P<char>.)"
)
_PLAIN = {"39": range(30, 40), "49": range(40, 50)}  #: these colours are the terminal's own again

Cell = tuple[str, frozenset[str]]  #: a character and the codes of its style


class Cells:
    """Cells of a screen; every character takes one."""

    def __init__(self, width: int, height: int) -> None:
        self._rows: list[list[Cell]] = [[(" ", frozenset())] * width for _ in range(height)]

    def take(self, text: str) -> Cells:
        """Show what was sent."""
        x = y = 0
        style: frozenset[str] = frozenset()
        for piece in _PIECE.finditer(text):
            if piece["char"] is not None:
                if y < len(self._rows) and x < len(self._rows[y]):
                    self._rows[y][x] = piece["char"], style
                x += 1
            elif piece["act"] == "H":
                y, x = (int(value) - 1 for value in (piece["values"] or "1;1").split(";"))
            elif piece["act"] == "m":
                style = _styled(style, piece["values"])
        return self

    @property
    def rows(self) -> list[list[Cell]]:
        """All cells, from the top."""
        return [list(row) for row in self._rows]

    @property
    def text(self) -> list[str]:
        """The characters alone."""
        return ["".join(char for char, _style in row) for row in self._rows]


def _styled(style: frozenset[str], values: str) -> frozenset[str]:
    for value in (values or "0").split(";"):
        if value == "0":
            style = frozenset()
        elif value in _PLAIN:
            style -= {str(code) for code in _PLAIN[value]}
        else:
            style |= {value}
    return style
