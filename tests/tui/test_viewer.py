"""The program around the model, driven headless: keys arrive, actions are called, only changes are painted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest
from textual.command import CommandPalette
from textual.pilot import Pilot

from support.pictures import live, small_view
from tianjictl.tui.app import RunApp
from tianjictl.tui.glyphs import ASCII, BRAILLE, Glyphs
from tianjictl.tui.paint import AsciiOnly, strip_of
from tianjictl.tui.surface import Surface
from tianjictl.tui.text import line, plain

WITHIN_S = 20.0


def drive(app: RunApp, story: Callable[[Pilot[None]], Awaitable[None]], size: tuple[int, int] = (100, 30)) -> None:
    """Run the viewer headless and let `story` press its keys."""

    async def told() -> None:
        async with app.run_test(size=size) as pilot:
            await story(pilot)

    asyncio.run(told())


def screen(app: RunApp) -> str:
    return "\n".join(plain(app.query_one(Surface).rows))


async def until(pilot: Pilot[None], condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` holds; AssertionError after a while."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WITHIN_S
    while not condition():
        assert loop.time() < deadline, f"{what} did not happen:\n{screen(pilot.app)}"  # type: ignore[arg-type]
        await pilot.pause(0.01)


@pytest.fixture
def make(source, actions) -> Callable[..., RunApp]:
    """Makes a viewer of the made-up run."""

    def made(
        *, glyphs: Glyphs = BRAILLE, read_only: bool = False, colour: bool = True, period_s: float = 30.0
    ) -> RunApp:
        return RunApp(
            source, actions, source.shown, glyphs=glyphs, read_only=read_only, colour=colour, period_s=period_s
        )

    return made


def test_every_view_opens_by_its_key(make):
    app = make()

    async def story(pilot: Pilot[None]) -> None:
        for key, words in (
            ("2", "measures, or why not"), ("3", "2 connected"), ("4", "logs of actor-3"),
            ("5", "the plan of this run cannot be read"), ("6", "12,000,000 complete"), ("7", "component.died"),
            ("1", "what limits it"),
        ):  # fmt: skip
            await pilot.press(key)
            await until(pilot, lambda words=words: words in screen(app), words)

    drive(app, story)


def test_a_log_shows_what_its_component_wrote(make, source):
    source.lines = {"actor-1": ["[red]not markup[/red]", "\x1b[2Jnot obeyed"], "actor-2": ["another"]}
    app = make()

    async def story(pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await until(pilot, lambda: "not obeyed" in screen(app), "the log of actor-1")
        assert "[red]not markup[/red]" in screen(app)
        assert "\x1b" not in screen(app)
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "another" in screen(app), "the log of actor-2")
        assert "not obeyed" not in screen(app)

    drive(app, story)


@pytest.mark.parametrize(
    ("keys", "done", "told"),
    [
        ("c", "checkpoint", "wrote checkpoint 13,000,000"),
        ("S", "stop", "nothing is left"),
        ("x", "scale L2A4", "it is L2A4 after"),
    ],
)
def test_actions_are_cancelled_by_enter_and_done_when_confirmed(make, actions, keys, done, told):
    app = make()

    async def ask(pilot: Pilot[None]) -> None:
        await pilot.press(keys)
        if keys == "x":
            await pilot.press("l", "2", "a", "4", "enter")
            await until(pilot, lambda: "+ actor-4 on cn02" in screen(app), "the difference")

    async def story(pilot: Pilot[None]) -> None:
        await ask(pilot)
        await pilot.press("enter")
        assert app.model.scene.dialog is None
        assert actions.done == []
        await ask(pilot)
        await pilot.press("right", "enter")
        await until(pilot, lambda: told in screen(app), told)
        assert actions.done == [done]

    drive(app, story)


def test_a_plan_that_changes_before_a_scale_is_confirmed_is_shown_and_asked_again(make, actions):
    app = make()

    async def story(pilot: Pilot[None]) -> None:
        await pilot.press("x", "l", "2", "a", "4", "enter")
        await until(pilot, lambda: "+ actor-4 on cn02" in screen(app), "the difference")
        actions.revision, actions.host = 2, "cn03"
        await pilot.press("right", "enter")
        await until(pilot, lambda: "+ actor-4 on cn03" in screen(app), "the difference as it is now")
        assert "The plan has changed meanwhile" in screen(app)
        assert actions.done == []
        await pilot.press("right", "enter")
        await until(pilot, lambda: "it is L2A4 after" in screen(app), "the scaling")
        assert actions.done == ["scale L2A4"]

    drive(app, story)


def test_a_refused_shape_is_told_in_the_dialog(make):
    app = make()

    async def story(pilot: Pilot[None]) -> None:
        await pilot.press("x", "l", "9", "a", "9", "enter")
        await until(pilot, lambda: "no room for L9A9; L2A4 fits" in screen(app), "the refusal")

    drive(app, story)


def test_a_viewer_that_may_only_read_offers_no_action_anywhere(make, actions):
    app = make(read_only=True)

    async def story(pilot: Pilot[None]) -> None:
        await pilot.press("S", "right", "enter", "c", "right", "enter", "x")
        assert app.model.scene.dialog is None
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette), "the palette")
        await pilot.press(*"stop the tr")
        await pilot.press("enter")
        await pilot.press("escape")
        assert app.model.scene.dialog is None
        assert actions.done == []

    drive(app, story)


@pytest.mark.parametrize("opened_by", ["ctrl+p", "colon"])
def test_the_palette_finds_our_commands(make, opened_by):
    app = make()

    async def story(pilot: Pilot[None]) -> None:
        await pilot.press(opened_by)
        await until(pilot, lambda: isinstance(app.screen, CommandPalette), "the palette")
        await pilot.press(*"view host")
        await pilot.pause(0.3)
        await pilot.press("enter")
        await until(pilot, lambda: app.model.scene.view_name == "hosts", "the view of hosts")

    drive(app, story)


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
def test_leaving_ends_the_viewer_at_once_though_a_host_does_not_answer(make, source, key):
    release = threading.Event()
    source.picture = lambda: release.wait(20) and source.shown
    app = make()

    async def story(pilot: Pilot[None]) -> None:
        if key != "q":
            await pilot.press("S")  # an open dialog is in nobody's way
        await pilot.press(key)
        await pilot.pause()
        assert not app.is_running

    try:
        drive(app, story)
    finally:
        release.set()


def test_only_rows_that_have_changed_are_painted(make, source, monkeypatch):
    release = threading.Event()
    source.picture = lambda: release.wait(20) and source.shown  # no look of its own comes between
    app = make()
    painted: list[int] = []
    show = Surface.show
    monkeypatch.setattr(Surface, "show", lambda self, rows: painted.append(show(self, rows)))

    async def story(pilot: Pilot[None]) -> None:
        del painted[:]
        app.post_message(app.Seen(live(small_view()), app.model.scene.extra))
        app.post_message(app.Seen(live(small_view(elapsed_s=246.0)), app.model.scene.extra))
        await until(pilot, lambda: len(painted) == 2, "two updates")
        assert painted == [0, 1]

    try:
        drive(app, story)
    finally:
        release.set()


def test_a_look_that_takes_too_long_makes_the_numbers_stale(make, source, monkeypatch):
    app = make(period_s=0.05)
    monkeypatch.setattr("tianjictl.tui.app._LATE_AFTER_S", 0.0)
    release = threading.Event()

    async def story(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: source.looks > 0, "a look")
        source.picture = lambda: release.wait(20) and source.shown
        await until(pilot, lambda: "STALE" in screen(app), "the mark")
        assert "no answer so far" in screen(app)
        before = app.model.scene.picture.age_s
        await until(pilot, lambda: app.model.scene.picture.age_s > before + 0.5, "a greater age")

    try:
        drive(app, story)
    finally:
        release.set()


def test_pausing_stops_the_looks(make, source):
    app = make(period_s=0.02)

    async def story(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: source.looks > 2, "looks")
        await pilot.press("space")
        await pilot.pause(0.1)
        before = source.looks
        await pilot.pause(0.2)
        assert source.looks == before
        await pilot.press("space")
        await until(pilot, lambda: source.looks > before, "another look")

    drive(app, story)


def test_the_screen_is_laid_out_anew_when_the_terminal_changes_its_size(make):
    app = make()

    async def story(pilot: Pilot[None]) -> None:
        await pilot.resize_terminal(200, 60)
        await until(pilot, lambda: "the plan says" in screen(app), "the third column")
        await pilot.resize_terminal(40, 10)
        await until(pilot, lambda: "the plan says" not in screen(app), "the small screen")

    drive(app, story)


def test_without_colour_nothing_has_one_and_ascii_holds_to_the_last_guard(make):
    row = line(("● running", "good bold"), ("lost", "bad"), ("L", "learner hi"))
    assert any(segment.style and segment.style.color for segment in strip_of(row, colour=True))
    assert not any(segment.style and segment.style.color for segment in strip_of(row, colour=False))
    app = make(glyphs=ASCII)

    async def story(pilot: Pilot[None]) -> None:
        assert isinstance(app.get_line_filters()[-1], AsciiOnly)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette), "the palette")
        await pilot.pause(0.2)
        for y, strip in enumerate(app.screen._compositor.render_strips()):
            text = "".join(segment.text for segment in AsciiOnly().apply(list(strip), app.screen.styles.background))
            assert text.isascii(), (y, text)
            assert len(text) == 100

    drive(app, story)


def test_a_crash_is_kept_for_who_started_the_viewer(make, monkeypatch):
    app = make()

    async def story(pilot: Pilot[None]) -> None:
        monkeypatch.setattr(app.model, "press", lambda *_: 1 / 0)
        await pilot.press("2")

    with pytest.raises(ZeroDivisionError):
        drive(app, story)
    assert isinstance(app.crash, ZeroDivisionError)
