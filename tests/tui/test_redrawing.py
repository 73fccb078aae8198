"""Frame after frame: what has not changed is not made again, and no frame shows that there was one before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from runtime.contract.view import Freshness, RunView
from support.pictures import ended, large_view, live, small_view, stale
from support.whole_view import whole_view
from tianjictl.tui.dialogs import AskShape
from tianjictl.tui.glyphs import ASCII, BRAILLE
from tianjictl.tui.scene import VIEWS, Scene
from tianjictl.tui.views import overview
from tianjictl.tui.views.frame import Drawing, draw
from tianjictl.tui.views.overview import PANELS, Overview, Panel

BUSIER = small_view().components[0].model_copy(update={"cpu_percent": 33.0})
SIZES = ((80, 24), (120, 40), (200, 60))


def one_part_after_another(first: RunView, last: RunView) -> Iterator[RunView]:
    """From one view to another, one part at a time."""
    changes: dict[str, object] = {}
    for part in RunView.model_fields:
        changes[part] = getattr(last, part)
        yield first.model_copy(update=changes)


@pytest.mark.parametrize("last", [large_view(), whole_view()], ids=["large", "whole"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_frame_is_the_same_whatever_was_drawn_before(last, width, height):
    drawing, first = Drawing(), small_view()
    there_and_back = [*one_part_after_another(first, last), *one_part_after_another(last, first)]
    for view in there_and_back:
        scene = Scene(live(view))
        assert drawing.draw(scene, width, height) == draw(scene, width, height)


def test_ages_characters_sizes_views_and_dialogs_leave_no_trace_either():
    drawing, view = Drawing(), small_view()
    pictures = [live(view), stale(view), replace(stale(view), age_s=43.0), ended(view), live(view)]
    scenes = [Scene(picture, glyphs=glyphs) for picture in pictures for glyphs in (BRAILLE, ASCII)]
    scenes += [Scene(live(view), view_name=name) for name in VIEWS]
    scenes += [Scene(live(view), dialog=AskShape("L1A4")), Scene(live(view)), Scene(live(view), message="done")]
    for scene in scenes:
        for width, height in ((80, 24), (81, 24), (80, 25), (200, 60), (20, 3)):
            assert drawing.draw(scene, width, height) == draw(scene, width, height)


class PartOfAView:
    """A view of which only some parts may be looked at."""

    def __init__(self, view: RunView, parts: tuple[str, ...]) -> None:
        self._view, self._parts = view, parts

    def __getattr__(self, name: str) -> object:
        assert name in self._parts, f"it looks at {name}, which it does not say"
        return getattr(self._view, name)


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_says_all_that_it_is_drawn_from(name):
    panel = PANELS[name]
    for view in (small_view(), large_view(), whole_view()):
        scene = Scene(replace(live(view), view=PartOfAView(view, panel.parts)))  # type: ignore[arg-type]
        assert panel.draw(scene, 60, 12)
    aged = {age_s: panel.draw(Scene(replace(stale(small_view()), age_s=age_s)), 100, 20) for age_s in (0.0, 500.0)}
    assert panel.ages == (aged[0.0] != aged[500.0])


@pytest.mark.parametrize(
    ("changed", "drawn"),
    [
        ({}, set()),
        ({"elapsed_s": 246.0}, set()),
        ({"rates": whole_view().rates}, {"rates"}),
        ({"events": small_view().events[:-1]}, {"events"}),
        ({"components": (BUSIER, *small_view().components[1:])}, {"components", "hosts"}),
        ({"freshness": Freshness(lag_bins=((1, 10),))}, {"freshness", "reward"}),  # which has more room then
    ],
    ids=["nothing", "time", "rates", "events", "components", "freshness"],
)
def test_only_panels_whose_parts_have_changed_are_drawn(monkeypatch, changed, drawn):
    seen: set[str] = set()

    def noting(name: str, panel: Panel) -> Panel:
        return replace(panel, draw=lambda *given: seen.add(name) or panel.draw(*given))

    monkeypatch.setattr(overview, "PANELS", {name: noting(name, panel) for name, panel in PANELS.items()})
    whole = Overview()
    before = whole.body(Scene(live(small_view())), 200, 60)
    seen.clear()
    after = whole.body(Scene(live(small_view(**changed))), 200, 60)
    assert seen == drawn
    assert (before != after) == bool(drawn)
