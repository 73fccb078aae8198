"""What is cut on the screen can be read whole: in the view where there is room, in a dialog everywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.contract.view import Bottleneck, Drift, LinkView, RunView
from support.pictures import MADE_AT, checkpoints, large_view, live, small_view
from tianjictl.tui.dialogs import Whole
from tianjictl.tui.glyphs import ASCII, BRAILLE
from tianjictl.tui.model import Model
from tianjictl.tui.scene import Extra
from tianjictl.tui.text import fold, line_width, plain, width
from tianjictl.tui.views.frame import draw

LONG = " ".join(f"word-{n}" for n in range(60))
EVENT = (
    small_view()
    .events[0]
    .model_copy(
        update={
            "id": "e99",
            "kind": "checkpoint.failed",
            "message": LONG,
            "host": "cn02",
            "cause": "e7",
            "time": MADE_AT,
        }
    )
)


def model_of(view: RunView, extra: Extra | None = None) -> Model:
    model = Model(live(view), BRAILLE)
    model.see(live(view), extra or Extra())
    return model


def shown(model: Model, size: tuple[int, int] = (80, 24)) -> str:
    lines = draw(model.scene, *size)
    assert [line_width(row) for row in lines] == [size[0]] * size[1]
    return "\n".join(plain(lines))


def read(model: Model) -> str:
    """What the open dialog says, unfolded."""
    assert isinstance(model.scene.dialog, Whole)
    return " ".join(model.scene.dialog.told)


def pressed(model: Model, *keys: str) -> Model:
    for key in keys:
        model.press(key)
    return model


def test_nothing_of_a_folded_text_is_lost():
    assert fold("one two three", 7) == ["one two", "three"]
    assert fold("a /runs/a-very-long-path b", 8) == ["a", "/runs/a-", "very-lon", "g-path b"]
    assert fold("", 5) == [""]
    for cells in (1, 2, 5, 79):
        rows = fold("日本語 and a /runs/path/that/is/long", cells)
        assert "".join(rows).replace(" ", "") == "日本語anda/runs/path/that/is/long"
        assert cells == 1 or all(width(row) <= cells for row in rows)


@pytest.mark.parametrize("key", ["enter", "v"])
@pytest.mark.parametrize(
    ("view_key", "words"),
    [("7", "word-59"), ("6", "/runs/r/checkpoints/step-000012000000"), ("3", "cores 0-5"), ("4", "the end of it")],
    ids=["events", "checkpoints", "hosts", "logs"],
)
def test_enter_and_v_show_the_row_under_the_cursor_whole(view_key, words, key):
    extra = Extra(
        events=(*small_view().events, EVENT), checkpoints=tuple(checkpoints()), log_of="actor-0",
        log=("short", f"{LONG} the end of it"),
    )  # fmt: skip
    model = pressed(model_of(small_view(), extra), view_key, key)
    assert words in read(model)
    assert words in shown(model)


def test_an_event_is_told_with_where_it_was_and_what_led_to_it():
    model = pressed(model_of(small_view(), Extra(events=(EVENT,))), "7", "enter")
    for words in (LONG, "2026-01-02 03:04:05", "host cn02", "event e99", "led to by event e7"):
        assert words in read(model)


def test_a_component_is_shown_by_v_as_enter_opens_its_log():
    model = pressed(model_of(small_view()), "2", "v")
    assert "restarting: died of signal 9; again in 0.8 s" in read(model)
    assert pressed(model, "escape", "enter").scene.view_name == "logs"
    assert model.scene.dialog is None


def test_the_cursor_goes_from_the_hosts_on_to_the_links():
    why = "node17 is away, and the way round it is not known yet"
    links = (LinkView(source="cn02", target="cn01", transport="tcp", mb_per_s=1.0, state="lost", reason=why),)
    model = pressed(model_of(small_view(links=links)), "3", "down", "down", "enter")
    assert why in read(model)
    assert "cn02 → cn01" in shown(model)
    assert "cn02" in shown(pressed(model, "enter", "up", "enter"))
    assert "its clock is -2.500 s" in read(model)


def test_every_link_can_be_reached_and_is_in_sight_then():
    model = pressed(model_of(large_view()), "3", "end")
    assert "node63 → node00" in shown(model)
    assert "node63 → node00" not in shown(pressed(model, "home"))


def test_the_overview_shows_its_sentences_whole():
    model = pressed(model_of(small_view()), "v")
    assert "give it cores or add a group" in read(model)
    assert "tianjictl scale cartpole-ppo L2A4" in read(model)


def test_long_sentences_on_what_limits_it_are_wrapped_where_there_is_room():
    limit = Bottleneck(side="learner", advice=f"{' '.join(LONG.split()[:30])} the first end")
    drift = Drift(ratio=0.5, drifting=True, reason=f"{' '.join(LONG.split()[:30])} the second end")
    text = shown(model_of(small_view(bottleneck=limit, drift=drift)), (120, 40)).replace("\n", " ")
    for words in ("the first end", "the second end", "tianjictl scale cartpole-ppo L2A4"):
        assert words in text


@pytest.mark.parametrize("key", ["enter", "escape", "q", "v"])
def test_the_dialog_is_closed_and_the_cursor_is_where_it_was(key):
    model = pressed(model_of(small_view(), Extra(checkpoints=tuple(checkpoints()))), "6", "down", "enter")
    before = model.scene.browse
    assert model.press(key) is None, "no key of it does anything else"
    assert model.scene.dialog is None
    assert model.scene.browse == before


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (20, 6)])
def test_what_is_longer_than_the_screen_is_read_page_by_page(size):
    model = pressed(model_of(small_view(), Extra(log_of="actor-0", log=(" ".join([LONG] * 9),))), "4", "enter")
    model.scene = replace(model.scene, dialog=Whole("all", tuple(f"line {n}." for n in range(50))))
    seen = ""
    for _ in range(60):
        seen += shown(model, size)
        model.press("down")
    assert all(f"line {n}." in seen for n in range(50))
    again = shown(model, size)
    assert shown(pressed(model, "down", "up"), size) == again


def test_nothing_to_read_opens_no_dialog():
    for key in ("3", "4", "5", "6", "7"):
        model = pressed(model_of(small_view(components=(), hosts=(), links=(), events=())), key, "enter")
        assert model.scene.dialog is None


def test_the_event_under_the_cursor_is_wrapped_and_the_others_are_not():
    model = pressed(model_of(small_view(), Extra(events=(EVENT, *small_view().events, EVENT))), "7")
    text = shown(model, (100, 30))
    assert "word-59" in text
    assert "03:03:59 run.state" in text, "what was before it is still there"
    model.press("up")
    assert "word-59" not in shown(model, (100, 30))
    model.press("home")
    assert "word-59" in shown(model, (100, 30))


def test_an_event_takes_all_the_lines_that_are_free():
    longer = EVENT.model_copy(update={"message": f"{LONG} {LONG[:300]} the end"})
    assert "the end" in shown(pressed(model_of(small_view(), Extra(events=(longer,))), "7"))


def test_an_event_longer_than_half_of_the_room_is_cut_and_says_so():
    longer = EVENT.model_copy(update={"message": " ".join([LONG] * 9)})
    text = shown(pressed(model_of(small_view(), Extra(events=(*small_view().events, longer))), "7"))
    assert text.splitlines()[-2].endswith("…")
    assert "03:03:59 run.state" in text


def test_the_cursor_of_events_stays_within_what_the_filter_lets_through():
    model = pressed(model_of(small_view(), Extra(events=small_view().events)), "7", "slash")
    for char in "died":
        model.press(char, char)
    pressed(model, "enter", "up", "up", "up")
    assert model.scene.browse.back == 0
    assert "actor-3 was ended by signal 9" in read(pressed(model, "enter"))


def test_a_dialog_to_read_holds_to_ascii_and_text_cannot_steer_the_terminal():
    model = Model(live(small_view()), ASCII)
    model.see(live(small_view()), Extra(events=(EVENT.model_copy(update={"message": "\x1b[2J données"}),)))
    text = shown(pressed(model, "7", "enter"))
    assert text.isascii()
    assert "\x1b" not in text
