"""What each key does to the scene, without a terminal."""

from __future__ import annotations

import pytest

from runtime.contract.operator import Difference
from support.pictures import ended, large_view, live, small_view
from tianjictl.tui.dialogs import AskShape, Confirm
from tianjictl.tui.effects import AskDifference, Leave, OpenPalette, Rescale, StopRun, WriteCheckpoint
from tianjictl.tui.glyphs import BRAILLE
from tianjictl.tui.keys import COMMANDS
from tianjictl.tui.model import Model
from tianjictl.tui.scene import COMPONENT_SORTS, HOST_SORTS, VIEWS, Extra
from tianjictl.tui.text import plain
from tianjictl.tui.views.frame import draw
from tianjictl.tui.views.lists import cursor_of, listed_components

TO_L2A4 = Difference(revision=2, shape_before="L1A4", shape_after="L2A4")


@pytest.fixture
def model() -> Model:
    return Model(live(large_view()), BRAILLE)


def type_in(model: Model, text: str) -> None:
    for char in text:
        model.press({"/": "slash", "!": "exclamation_mark", " ": "space"}.get(char, char), char)


def chosen(model: Model) -> str:
    names = [component.name for component in listed_components(model.scene)]
    return names[cursor_of(names, model.scene.browse)]


def test_numbers_and_tab_turn_to_the_views(model):
    for number, name in enumerate(VIEWS, 1):
        model.press(str(number))
        assert model.scene.view_name == name
    model.press("tab")
    assert model.scene.view_name == "overview"


def test_the_cursor_moves_and_stays_on_what_it_is_on_when_rows_move(model):
    model.press("2")
    for key in ("down", "j", "pagedown", "up", "k", "end", "home", "G", "g", "pageup", "down"):
        model.press(key)
    assert chosen(model) == "actor-17"
    calm = large_view().model_copy(update={"components": large_view().components[:8] + large_view().components[20:40]})
    model.see(live(calm), Extra())
    assert chosen(model) == "actor-17"
    model.press("end")
    before = chosen(model)
    model.press("s")
    assert chosen(model) == before


def test_s_goes_through_the_orders_and_comes_round(model):
    for key, sorts in (("2", COMPONENT_SORTS), ("3", HOST_SORTS)):
        model.press(key)
        seen = []
        for _ in sorts:
            seen.append(model.scene.browse.sort)
            model.press("s")
        assert tuple(seen) == sorts
        assert model.scene.browse.sort == sorts[0]


def test_slash_types_a_filter_enter_keeps_it_and_escape_drops_it(model):
    model.press("slash", "/")
    assert model.scene.view_name == "components", "the overview has no filter of its own"
    type_in(model, "actor !running")
    assert model.scene.browse.filter == "actor !running"
    assert len(listed_components(model.scene)) == 8
    model.press("backspace")
    model.press("enter")
    assert not model.scene.typing
    assert model.scene.browse.filter == "actor !runnin"
    model.press("escape")
    assert model.scene.browse.filter == ""
    model.press("escape")
    assert model.scene.view_name == "overview"


def test_letters_of_a_filter_are_no_commands(model):
    model.press("2")
    model.press("slash", "/")
    type_in(model, "qcxS")
    assert model.scene.browse.filter == "qcxS"
    assert model.scene.dialog is None
    model.press("escape")
    assert (model.scene.typing, model.scene.browse.filter) == (False, "")


def test_each_view_keeps_its_filter_and_cursor(model):
    model.press("2")
    model.press("slash", "/")
    type_in(model, "node17")
    model.press("enter")
    model.press("3")
    assert model.scene.browse.filter == ""
    model.press("2")
    assert model.scene.browse.filter == "node17"


def test_enter_opens_the_log_of_what_the_cursor_is_on_and_brackets_others(model):
    model.press("2")
    model.press("down")
    model.press("enter")
    assert (model.scene.view_name, model.component) == ("logs", "actor-17")
    model.press("right_square_bracket")
    assert model.component == "actor-18"
    model.press("left_square_bracket")
    model.press("left_square_bracket")
    assert model.component == "actor-16"


def test_a_log_follows_until_it_is_scrolled_back():
    model = Model(live(small_view()), BRAILLE)
    model.press("4")
    model.see(live(small_view()), Extra(log_of="actor-0", log=tuple(f"line {n}" for n in range(100))))
    assert plain(draw(model.scene, 80, 24))[-2] == "line 99"
    model.press("up")
    model.press("up")
    assert plain(draw(model.scene, 80, 24))[-2] == "line 97"
    model.press("home")
    assert plain(draw(model.scene, 80, 24))[4] == "line 0"
    model.press("end")
    assert plain(draw(model.scene, 80, 24))[-2] == "line 99"


def test_space_pauses_and_the_header_says_so(model):
    model.press("space")
    assert "PAUSED" in plain(draw(model.scene, 80, 24))[0]
    model.press("space")
    assert "PAUSED" not in plain(draw(model.scene, 80, 24))[0]


def test_help_shows_every_command_and_any_key_closes_it(model):
    model.press("question_mark")
    shown = "\n".join(plain(draw(model.scene, 80, 24)))
    assert all(command.help in shown for command in COMMANDS)
    assert model.press("q") is None
    assert not model.scene.helping


def test_leaving_and_the_palette_are_effects(model):
    assert model.press("q") == Leave()
    assert model.press("colon", ":") == OpenPalette()


@pytest.mark.parametrize(("key", "effect"), [("c", WriteCheckpoint()), ("S", StopRun())])
def test_an_action_asks_first_and_enter_cancels_it(model, key, effect):
    assert model.press(key) is None
    assert isinstance(model.scene.dialog, Confirm)
    assert model.press("enter") is None, "Enter on an untouched dialog is Cancel"
    assert model.scene.dialog is None
    for cancel in ("escape", "q", "n", "ctrl+c"):
        model.press(key)
        assert model.press(cancel) is None
        assert model.scene.dialog is None
    for move in ("right", "tab", "left"):
        model.press(key)
        model.press(move)
        assert model.press("enter") == effect
        assert model.scene.dialog is None
    model.press(key)
    model.press("right")
    model.press("left")
    assert model.press("enter") is None, "back on Cancel"


def test_scaling_shows_the_difference_before_it_asks():
    model = Model(live(small_view()), BRAILLE)
    model.press("x")
    assert model.press("enter") is None, "nothing typed: Enter is Cancel"
    assert model.scene.dialog is None
    model.press("x")
    assert "L2A4 is advised" in "\n".join(plain(draw(model.scene, 80, 24)))
    type_in(model, "l2a5")
    model.press("backspace")
    type_in(model, "6")
    assert model.press("enter") == AskDifference("L2A6")
    assert model.press("enter") is None, "one question at a time"
    told = Difference(revision=2, shape_before="L1A4", shape_after="L2A6", starts=("actor-4 on cn02",))
    model.answered("L2A6", told, ["+ actor-4 on cn02"])
    assert "+ actor-4 on cn02" in "\n".join(plain(draw(model.scene, 80, 24)))
    assert model.press("enter") is None, "Cancel is the default here too"
    assert model.scene.dialog is None


def test_a_confirmed_difference_scales_and_a_refusal_can_be_mended():
    model = Model(live(small_view()), BRAILLE)
    model.press("x")
    type_in(model, "L9A9")
    model.press("enter")
    model.answered("L9A9", "no room for L9A9; L2A4 fits", [])
    assert isinstance(model.scene.dialog, AskShape)
    assert "no room for L9A9" in "\n".join(plain(draw(model.scene, 80, 24)))
    for _ in range(4):
        model.press("backspace")
    type_in(model, "L2A4")
    assert model.press("enter") == AskDifference("L2A4")
    model.answered("L2A4", TO_L2A4, ["~ 6 components go on where they are"])
    model.press("right")
    assert model.press("enter") == Rescale("L2A4", TO_L2A4)


def test_a_change_that_has_become_another_is_shown_again_and_cancel_is_its_default():
    model = Model(live(small_view()), BRAILLE)
    model.changed_since("L2A4", TO_L2A4, ["+ actor-9 on cn01"])
    shown = "\n".join(plain(draw(model.scene, 80, 24)))
    assert "The plan has changed meanwhile" in shown
    assert "+ actor-9 on cn01" in shown
    model.press("right")
    assert model.press("enter") == Rescale("L2A4", TO_L2A4)
    model.changed_since("L2A4", TO_L2A4, [])
    assert model.press("enter") is None, "Enter on an untouched dialog is Cancel"


def test_a_change_that_has_become_another_closes_no_dialog_of_another_matter():
    model = Model(live(small_view()), BRAILLE)
    model.press("S")
    model.changed_since("L2A4", TO_L2A4, [])
    model.press("right")
    assert model.press("enter") == StopRun()
    assert "not scaled to L2A4" in plain(draw(model.scene, 80, 24))[-1]


def test_an_answer_that_nobody_waits_for_opens_no_dialog():
    model = Model(live(small_view()), BRAILLE)
    model.press("x")
    type_in(model, "L2A4")
    model.press("enter")
    model.press("escape")
    model.answered("L2A4", TO_L2A4, [])
    assert model.scene.dialog is None


def test_a_viewer_that_may_only_read_has_no_actions():
    model = Model(live(small_view()), BRAILLE, read_only=True)
    for key in ("c", "x", "S"):
        assert model.press(key) is None
        assert model.scene.dialog is None
    assert not any(
        model.allows(effect)
        for effect in (WriteCheckpoint(), StopRun(), Rescale("L2A4", TO_L2A4), AskDifference("L2A4"))
    )
    footer = plain(draw(model.scene, 120, 40))[-1]
    assert "read-only" in footer
    assert "stop" not in footer


def test_a_run_that_is_over_has_nothing_to_stop():
    model = Model(ended(small_view()), BRAILLE)
    model.press("S")
    assert model.scene.dialog is None
    assert "the run is over" in plain(draw(model.scene, 80, 24))[-1]
    model.press("down")
    assert "leave" in plain(draw(model.scene, 80, 24))[-1], "the next key brings the keys back"
