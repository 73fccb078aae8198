"""Questions before something is done. The button that Enter presses is Cancel until the person moves to another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tianjictl.tui.effects import AskDifference
from tianjictl.tui.text import clean, cut, fit_line, fold, line, line_width, width, wrap

if TYPE_CHECKING:
    from tianjictl.tui.effects import Effect
    from tianjictl.tui.glyphs import Glyphs
    from tianjictl.tui.text import Line, Lines, Span

_WIDEST = 72
_MOST_LINES = 12  #: of what a dialog says
_CANCEL_KEYS = frozenset({"escape", "q", "ctrl+c", "n"})
_MOVE_KEYS = frozenset({"left", "right", "tab", "shift+tab", "h", "l", "up", "down"})


@dataclass(frozen=True, slots=True)
class Confirm:
    """Cancel, or do it."""

    title: str
    told: tuple[str, ...]
    verb: str  #: on the button that does it
    effect: Effect
    sure: bool = False  #: the cursor is on that button

    def press(self, key: str, _character: str | None) -> tuple[Dialog | None, Effect | None]:
        """The dialog after a key (none: closed), and what is to be done."""
        if key in _MOVE_KEYS:
            return replace(self, sure=not self.sure), None
        if key == "enter":
            return None, self.effect if self.sure else None
        return (None, None) if key in _CANCEL_KEYS else (self, None)

    def box(self, cells: int, _high: int, glyphs: Glyphs) -> Lines:
        """The dialog as lines of one width."""
        buttons = line(
            (_button("Cancel", chosen=not self.sure), "reverse" if not self.sure else ""),
            "  ",
            (_button(self.verb, chosen=self.sure), "reverse" if self.sure else ""),
        )
        return boxed(
            self.title, list(self.told), [buttons, _hint("left and right choose, Enter presses")], cells, glyphs
        )


def _button(word: str, *, chosen: bool) -> str:
    return f"[ {word} ]" if not chosen else f"> {word} <"


def _hint(text: str) -> Line:
    return ((text, "dim"),)


@dataclass(frozen=True, slots=True)
class AskShape:
    """Another shape is typed; Enter asks what it would change, and cancels as long as nothing is typed."""

    now: str
    advised: str = ""
    typed: str = ""
    asking: bool = False  #: the coordinator is being asked
    refused: str = ""

    def press(self, key: str, character: str | None) -> tuple[Dialog | None, Effect | None]:
        """The dialog after a key (none: closed), and what is to be done."""
        if key in ("escape", "ctrl+c"):
            return None, None
        if self.asking:
            return self, None
        if key == "enter":
            if not self.typed:
                return None, None
            return replace(self, asking=True, refused=""), AskDifference(self.typed)
        if key == "backspace":
            return replace(self, typed=self.typed[:-1]), None
        if character is not None and character.isascii() and character.isalnum() and len(self.typed) < 16:
            return replace(self, typed=self.typed + character.upper()), None
        return self, None

    def box(self, cells: int, _high: int, glyphs: Glyphs) -> Lines:
        """The dialog as lines of one width."""
        told = [f"It is {self.now} now." + (f" {self.advised} is advised." if self.advised else "")]
        if self.refused:
            told.append(self.refused)
        entry = line(("shape, as in L2A8: ", "label"), (self.typed, "bold"), ("_", "blink"))
        hint = "asking what would change" if self.asking else "Enter shows what would change, Esc cancels"
        return boxed("scale the training", told, [entry, _hint(hint)], cells, glyphs)


_CLOSE_KEYS = _CANCEL_KEYS | {"enter", "v"}
_TURN = {
    **dict.fromkeys(("down", "j", "right", "l", "pagedown", "space", "tab"), 1),
    **dict.fromkeys(("up", "k", "left", "h", "pageup", "shift+tab"), -1),
}


@dataclass(frozen=True, slots=True)
class Whole:
    """Something to read, all of it, over as many pages as it takes."""

    title: str
    told: tuple[str, ...]
    page: int = 0  #: counts on and on; after the last page comes the first

    def press(self, key: str, _character: str | None) -> tuple[Dialog | None, Effect | None]:
        """The dialog after a key (none: closed); nothing is ever to be done."""
        if key in _CLOSE_KEYS:
            return None, None
        return replace(self, page=self.page + _TURN.get(key, 0)), None

    def box(self, cells: int, high: int, glyphs: Glyphs) -> Lines:
        """The dialog as lines of one width, at most `high` of them."""
        rows = [row for text in self.told for row in fold(glyphs.shown(clean(text)), _inside(cells))]
        room = max(1, high - 4)
        pages = -(-len(rows) // room) or 1
        page = self.page % pages
        hint = "Enter closes this" if pages == 1 else f"{page + 1} of {pages}, down turns; Enter closes"
        shown: Lines = [line(row) for row in rows[page * room : (page + 1) * room]]
        return boxed(glyphs.shown(clean(self.title)), [], [*shown, (), _hint(hint)], cells, glyphs)


Dialog = Confirm | AskShape | Whole


def _inside(cells: int) -> int:
    """Cells of a line within a dialog's frame."""
    return max(8, min(_WIDEST, cells - 4) - 4)


def boxed(title: str, told: list[str], below: Lines, cells: int, glyphs: Glyphs) -> Lines:
    """A frame with a title around wrapped sentences and, below a blank line, whatever else."""
    inside = _inside(cells)
    texts: Lines = []
    for sentence in told:
        style = {"+": "good", "-": "bad"}.get(sentence[:1], "")
        texts += [line((row, style)) for row in wrap(glyphs.shown(clean(sentence)), inside, 4, glyphs.ellipsis)]
    if len(texts) > _MOST_LINES:
        texts = [*texts[: _MOST_LINES - 1], line((f"and {len(texts) - _MOST_LINES + 1} more lines", "dim"))]
    separated: Lines = [(), *below] if texts else below
    corner = ("+", "+", "+", "+") if glyphs.plot == "ascii" else ("┌", "┐", "└", "┘")
    head = f" {cut(title, inside - 2, glyphs.ellipsis)} "
    top = f"{corner[0]}{glyphs.rule}{head}{glyphs.rule * (inside + 1 - width(head))}{corner[1]}"
    bottom = f"{corner[2]}{glyphs.rule * (inside + 2)}{corner[3]}"
    side: Span = (glyphs.bar, "bold")
    rows = [(side, (" ", ""), *fit_line(row, inside, glyphs.ellipsis), (" ", ""), side) for row in (*texts, *separated)]
    return [((top, "bold"),), *rows, ((bottom, "bold"),)]


def laid_over(lines: Lines, box: Lines, cells: int) -> Lines:
    """The box in the middle of the screen; what it covers is hidden, the rest stands still."""
    wide = min(cells, line_width(box[0]))
    left = (cells - wide) // 2
    top = max(0, (len(lines) - len(box)) // 2)
    made = list(lines)
    for offset, row in enumerate(box[: len(lines) - top]):
        under = lines[top + offset]
        made[top + offset] = (*_dimmed(under, 0, left), *fit_line(row, wide), *_dimmed(under, left + wide, cells))
    return made


def _dimmed(row: Line, start: int, end: int) -> Line:
    """The cells of a line from `start` to `end`; where a wide character is cut in two, blanks."""
    text, at = [], 0
    for char in "".join(part for part, _style in row):
        wide = width(char)
        if at >= start and at + wide <= end:
            text.append(char)
        elif at < end and at + wide > start:
            text.append(" " * (min(end, at + wide) - max(start, at)))
        at += wide
    return (("".join(text), "dim"),)
