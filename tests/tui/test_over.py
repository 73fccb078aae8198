"""A run that is over: nothing is shown as if it were so now, and the way to go on is on the screen."""

from __future__ import annotations

import pytest

from runtime.contract.states import RunState
from runtime.contract.view import Checkpoints, RunView
from support.pictures import large_view, live, small_view
from tianjictl.runs.client import Picture, nobody_there
from tianjictl.tui.glyphs import ASCII, BRAILLE
from tianjictl.tui.model import Model
from tianjictl.tui.scene import VIEWS, Scene, ViewName
from tianjictl.tui.start import leaving_words
from tianjictl.tui.text import line_width, plain
from tianjictl.tui.views.frame import Drawing, draw

RESUME = "tianjictl resume cartpole-ppo-20260102-030000-beef --from-checkpoint"
UNSAVED = Checkpoints(failed_in_a_row=3, problem="No space left on device", hint="free some space")


def over(view: RunView, state: RunState) -> Picture:
    """The last view of a run that ended an hour ago."""
    last = view.model_copy(update={"state": state, "reason": "asked to stop"})
    return Picture(nobody_there(last), 3600.0, live=False, ended=True)


def shown(picture: Picture, view_name: ViewName = "overview", width: int = 80, height: int = 24) -> str:
    return "\n".join(plain(draw(Scene(picture, view_name=view_name), width, height)))


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_averages_stand_in_place_of_the_last_rates_bottleneck_and_links(size):
    text = shown(over(small_view(), RunState.STOPPED), "overview", *size)
    assert "rates on average" in text
    assert "50,391" in text  # 12,345,678 steps in 245 s
    for gone in ("182,300", "what limits it", "give it cores", "MB/s", "in flight", "flow", "L0A0", "x scale"):
        assert gone not in text, gone
    assert "L1A4 ·" in text


@pytest.mark.parametrize("state", [RunState.STOPPED, RunState.FAILED, RunState.LOST])
def test_the_command_that_goes_on_is_on_the_screen_and_said_on_leaving(state):
    picture = over(small_view(), state)
    assert RESUME in shown(picture)
    assert RESUME in leaving_words(picture)


def test_without_a_checkpoint_the_job_is_launched_again_and_it_is_told_why_none_was_written():
    text = shown(over(small_view(checkpoints=UNSAVED), RunState.FAILED), width=120, height=40)
    assert "launch the job again" in text
    assert "none was written; 3 failed in a row: No space left on device (free some space)" in text
    assert "resume" not in text


def test_a_run_that_has_reached_its_end_offers_no_way_on_but_to_watch_it():
    text = shown(over(small_view(), RunState.COMPLETED))
    assert "it has reached its end; tianjictl eval" in text
    assert "resume" not in text


def test_hosts_have_ended_with_a_mark_of_their_own_and_those_lost_stay_so():
    text = shown(over(large_view(), RunState.LOST), "hosts", 120, 40)
    assert "■ node00 ended" in text
    assert "✖ node17 lost" in text
    assert "in use" not in text
    assert "links" not in text


def test_the_panels_change_in_the_frame_in_which_the_run_ends():
    drawing = Drawing()
    for picture in (live(small_view()), over(small_view(), RunState.STOPPED), live(small_view())):
        scene = Scene(picture)
        assert drawing.draw(scene, 80, 24) == draw(scene, 80, 24)


def test_every_size_is_filled_exactly_also_afterwards():
    empty = small_view(elapsed_s=0.0, checkpoints=UNSAVED, components=(), hosts=(), links=())
    for view in (small_view(), large_view(), empty):
        for glyphs in (BRAILLE, ASCII):
            for width, height in ((1, 1), (9, 5), (33, 10), (40, 10), (80, 24), (160, 34)):
                for name in VIEWS:
                    scene = Scene(over(view, RunState.FAILED), view_name=name, glyphs=glyphs)
                    lines = draw(scene, width, height)
                    assert [line_width(row) for row in lines] == [width] * height
                    assert glyphs is BRAILLE or "\n".join(plain(lines)).isascii()


def test_actions_are_refused_with_the_state_it_ended_in():
    model = Model(over(small_view(), RunState.STOPPED), BRAILLE)
    model.press("x")
    assert "the run is over (stopped)" in plain(draw(model.scene, 80, 24))[-1]
