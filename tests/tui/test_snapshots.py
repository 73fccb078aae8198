"""Whole screens as text, beside the stored ones. TIANJI_SNAPSHOTS=update writes them anew."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.operator import Difference
from runtime.contract.view import RunView
from support.pictures import checkpoints, ended, large_view, live, plan_of, small_view, stale
from tianjictl.runs.client import Picture, nobody_there
from tianjictl.tui.dialogs import AskShape, Confirm
from tianjictl.tui.effects import Rescale
from tianjictl.tui.glyphs import ASCII, BLOCK, BRAILLE
from tianjictl.tui.scene import VIEWS, Browse, Extra, Scene
from tianjictl.tui.text import line_width, plain
from tianjictl.tui.views.frame import draw

FOLDER = Path(__file__).with_name("snapshots")
SIZES = ((80, 24), (120, 40), (200, 60))
EXTRA = Extra(
    events=small_view().events,
    log_of="learner-0",
    log=tuple(f"2026-01-02 03:04:{n:02d} INFO update {n}: loss 0.0{n}" for n in range(60)),
)
DIFFERENCE = ("+ actor-4 on cn02", "- actor-0 on cn01", "~ 5 components go on where they are", "cn02 is full then")
CHANGE = Difference(revision=2, shape_before="L1A4", shape_after="L2A4")
CONFIRM = Confirm("scale from L1A4 to L2A4?", DIFFERENCE, "Scale", Rescale("L2A4", CHANGE))


def scene(picture: Picture, **changes: object) -> Scene:
    return replace(Scene(picture, extra=EXTRA), **changes)  # type: ignore[arg-type]


def over(view: RunView) -> Picture:
    """As a run that has completed is read: nobody is there any more."""
    done = ended(view)
    return replace(done, view=nobody_there(done.view))


def check(name: str, shown: Scene, width: int, height: int) -> None:
    lines = draw(shown, width, height)
    assert [line_width(row) for row in lines] == [width] * height
    text = "\n".join(plain(lines)) + "\n"
    stored = FOLDER / f"{name}.txt"
    if os.environ.get("TIANJI_SNAPSHOTS") == "update":
        stored.write_text(text)
    assert text == stored.read_text(), f"{stored.name} shows another screen"


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("kind", ["small", "large"])
def test_the_overview_of_a_run_in_trouble(kind, width, height):
    view = small_view() if kind == "small" else large_view()
    check(f"overview-{kind}-{width}x{height}", scene(live(view)), width, height)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_overview_in_ascii(width, height):
    check(f"overview-ascii-{width}x{height}", scene(live(small_view()), glyphs=ASCII), width, height)


@pytest.mark.parametrize(("name", "picture"), [("stale", stale(small_view())), ("ended", over(small_view()))])
def test_old_numbers_and_ended_runs_look_so(name, picture):
    check(f"overview-{name}-80x24", scene(picture), 80, 24)


def test_why_the_numbers_are_old_is_never_cut_for_the_sake_of_the_views():
    picture = replace(
        stale(small_view()), problem="cn01: connect: 10.0.0.1 port 22: no answer within 3 s; should cn01 stay"
    )
    lines = plain(draw(scene(picture), 120, 40))
    assert picture.problem in lines[1]
    assert lines[0].endswith("STALE 42 s  overview")


def test_the_overview_on_a_bare_console():
    check("overview-block-80x24", scene(live(small_view()), glyphs=BLOCK), 80, 24)


@pytest.mark.parametrize("view_name", [name for name in VIEWS if name not in ("overview", "plan", "checkpoints")])
@pytest.mark.parametrize("kind", ["small", "large"])
def test_the_other_views(view_name, kind):
    view = small_view() if kind == "small" else large_view()
    check(f"{view_name}-{kind}-100x30", scene(live(view), view_name=view_name), 100, 30)


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("kind", ["small", "large"])
def test_the_plan_of_a_run(kind, width, height):
    view = small_view() if kind == "small" else large_view()
    shown = scene(live(view), view_name="plan", extra=Extra(plan=plan_of(view)))
    check(f"plan-{kind}-{width}x{height}", shown, width, height)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_checkpoints_of_a_run(width, height):
    kept = Extra(checkpoints=tuple(checkpoints()))
    shown = scene(live(small_view()), view_name="checkpoints", extra=kept, browse=Browse(cursor=2))
    check(f"checkpoints-{width}x{height}", shown, width, height)


@pytest.mark.parametrize("view_name", ["plan", "checkpoints"])
def test_a_view_that_could_not_be_read_says_why(view_name):
    untold = scene(live(small_view()), view_name=view_name, extra=Extra(problem="cn01 does not answer"))
    assert "cn01 does not answer" in "\n".join(plain(draw(untold, 80, 24)))


@pytest.mark.parametrize("dialog", [AskShape("L1A4", "L2A4", "L2A"), CONFIRM], ids=["shape", "difference"])
@pytest.mark.parametrize("glyphs", [BRAILLE, ASCII], ids=["unicode", "ascii"])
def test_dialogs_lie_over_what_is_shown(dialog, glyphs):
    name = f"dialog-{type(dialog).__name__.lower()}-{glyphs.plot}-80x24"
    check(name, scene(live(small_view()), dialog=dialog, glyphs=glyphs), 80, 24)


def test_the_help_fits_the_smallest_screen():
    check("help-80x24", scene(live(small_view()), helping=True), 80, 24)


def test_a_filter_is_shown_while_it_is_typed():
    typed = scene(live(large_view()), view_name="components", browse=Browse(filter="actor !running"), typing=True)
    check("filter-80x24", typed, 80, 24)


def test_ascii_screens_hold_nothing_but_ascii():
    for view in (small_view(reason="données périmées ✖"), large_view()):
        for name in VIEWS:
            lines = plain(draw(scene(live(view), view_name=name, glyphs=ASCII), 120, 40))
            assert "\n".join(lines).isascii(), name


@pytest.mark.parametrize("glyphs", [BRAILLE, ASCII], ids=["unicode", "ascii"])
def test_every_size_is_filled_exactly(glyphs):
    for view in (small_view(), large_view()):
        for width in (1, 9, 33, 72, 110, 160, 241):
            for height in (1, 3, 5, 10, 16, 18, 24, 34, 50):
                for name in VIEWS:
                    lines = draw(scene(live(view), view_name=name, glyphs=glyphs), width, height)
                    assert [line_width(row) for row in lines] == [width] * height, (name, width, height)
