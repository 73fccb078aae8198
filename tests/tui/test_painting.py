"""What a terminal is sent for a change: the cells that differ, and in the end it shows what a whole frame would."""

from __future__ import annotations

import pytest

from support.cells import Cells
from support.pictures import large_view, live, small_view
from tianjictl.tui.glyphs import ASCII
from tianjictl.tui.paint import difference, written
from tianjictl.tui.scene import VIEWS, Scene
from tianjictl.tui.text import Line, line, line_width, plain
from tianjictl.tui.views.frame import draw


@pytest.mark.parametrize(
    ("before", "after", "x", "changed"),
    [
        (line("a", ("b", "bold"), "c"), line("a", ("B", "bold"), "c"), 1, (("B", "bold"),)),
        (line("a", ("b", "bold"), "c"), line("a", ("b", "bad"), "c"), 1, (("b", "bad"),)),
        (line("ab", "cd"), line("a", "b", "cd"), 0, (("a", ""), ("b", ""))),
        (line("日本", "xy"), line("日本", "xz"), 4, (("xz", ""),)),
        (line("a", "a"), line("a", "a"), 2, ()),
        (line("aa"), line("a", "a"), 0, (("a", ""), ("a", ""))),
        (line("a", "a", "b"), line("a", "b", "b"), 1, (("b", ""),)),
    ],
)
def test_only_the_spans_that_differ_are_sent(before: Line, after: Line, x: int, changed: Line) -> None:
    assert difference(after, before) == (x, changed)


@pytest.mark.parametrize("colour", [True, False])
def test_changes_add_up_to_the_frame(colour: bool) -> None:
    views = [small_view(), small_view(elapsed_s=9999.0), large_view(), small_view(components=()), small_view()]
    frames = [draw(Scene(live(view), view_name=name), 120, 40) for view in views for name in VIEWS]
    screen = Cells(120, 40)
    before: list[Line] = [((" " * 120, ""),)] * 40
    for frame in frames:
        for y, (row, old) in enumerate(zip(frame, before, strict=True)):
            x, spans = difference(row, old)
            screen.take(f"\x1b[{y + 1};{x + 1}H{written(spans, colour=colour, ascii_only=False)}")
        whole = Cells(120, 40)
        for y, row in enumerate(frame):
            whole.take(f"\x1b[{y + 1};1H{written(row, colour=colour, ascii_only=False)}")
        assert screen.rows == whole.rows
        assert [text.rstrip() for text in screen.text] == plain(frame)
        before = frame


def test_colours_are_sent_only_where_they_may_be_and_ascii_is_the_last_guard() -> None:
    row = line(("● run", "good bold"), ("┌─ 日", ""))
    assert written(row, colour=True, ascii_only=False) == "\x1b[1;32m● run\x1b[0m┌─ 日"
    assert written(row, colour=False, ascii_only=False) == "\x1b[1m● run\x1b[0m┌─ 日"
    guarded = written(row, colour=False, ascii_only=True)
    assert guarded.isascii()
    assert len(guarded) == line_width(row) + len("\x1b[1m\x1b[0m")
    screen = draw(Scene(live(large_view()), glyphs=ASCII), 120, 40)
    assert all(written(line_, colour=True, ascii_only=False).isascii() for line_ in screen)
