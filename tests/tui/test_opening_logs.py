"""Which log the view of logs opens on."""

from __future__ import annotations

import pytest

from support.pictures import live, small_view
from tianjictl.tui.glyphs import BRAILLE
from tianjictl.tui.model import Model
from tianjictl.tui.scene import Extra


def log_of(model: Model, *lines: str) -> Extra:
    return Extra(log_of=model.component, log=lines)


def test_logs_open_on_the_component_in_trouble_else_on_the_coordinator():
    troubled, calm = Model(live(small_view()), BRAILLE), Model(live(small_view(components=())), BRAILLE)
    for model, name in ((troubled, "actor-3"), (calm, "coordinator")):
        model.press("4")
        assert model.component == name
        model.see(model.scene.picture, log_of(model, "a line"))
        assert model.component == name


def test_an_empty_log_that_nobody_chose_gives_way_to_one_that_has_something_in_it():
    model = Model(live(small_view()), BRAILLE)
    model.press("4")
    seen = []
    for _ in range(12):
        seen.append(model.component)
        model.see(model.scene.picture, log_of(model))
    assert seen[:4] == ["actor-3", "coordinator", "agent", "learner-0"]
    assert seen[-1] == "actor-3", "where all are empty it is the first again, and stays"
    again = Model(live(small_view()), BRAILLE)
    again.press("4")
    again.see(again.scene.picture, log_of(again))
    again.see(again.scene.picture, Extra(log_of="actor-3", log=()))
    assert again.component == "coordinator", "an answer on another log says nothing of this one"
    again.see(again.scene.picture, log_of(again, "a line"))
    assert again.component == "coordinator"


@pytest.mark.parametrize("keys", [("4", "right_square_bracket"), ("2", "l")], ids=["bracket", "cursor"])
def test_an_empty_log_that_was_chosen_stays(keys):
    model = Model(live(small_view()), BRAILLE)
    for key in keys:
        model.press(key)
    chosen_one = model.component
    model.see(model.scene.picture, log_of(model))
    assert model.component == chosen_one
