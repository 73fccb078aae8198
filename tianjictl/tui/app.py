"""The terminal UI as a program: Textual's event loop around the pure model, the feed's thread and the actions."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding
from textual.message import Message

from tianjictl.errors import TianjiError
from tianjictl.runs.scaling import difference_lines
from tianjictl.tui.effects import AskDifference, Leave, OpenPalette, Rescale, StopRun, WriteCheckpoint
from tianjictl.tui.feed import Feed
from tianjictl.tui.model import Model
from tianjictl.tui.paint import AsciiOnly
from tianjictl.tui.palette import Palette, RunCommands
from tianjictl.tui.surface import Surface
from tianjictl.tui.views.frame import Drawing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.filter import LineFilter

    from runtime.contract.operator import Difference
    from tianjictl.runs.client import Picture
    from tianjictl.tui.actions import Actions
    from tianjictl.tui.effects import Effect
    from tianjictl.tui.feed import Source
    from tianjictl.tui.glyphs import Glyphs
    from tianjictl.tui.scene import Extra

_LATE_AFTER_S = 5.0  #: a look that takes longer makes what is shown stale


class RunApp(App[None]):
    """Shows one run until the person leaves."""

    CSS = """
    Screen { layout: vertical; background: transparent; }
    """
    BINDINGS: ClassVar = [
        Binding("ctrl+q", "leave", show=False, priority=True),
        Binding("ctrl+c", "leave", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]
    COMMANDS: ClassVar = {RunCommands}
    ENABLE_COMMAND_PALETTE = True

    class Seen(Message):
        """The feed has looked."""

        def __init__(self, picture: Picture, extra: Extra) -> None:
            super().__init__()
            self.picture, self.extra = picture, extra

    class Told(Message):
        """An action has got somewhere."""

        def __init__(self, line: str) -> None:
            super().__init__()
            self.line = line

    class Failed(Message):
        """Something beside the screen is broken."""

        def __init__(self, error: Exception) -> None:
            super().__init__()
            self.error = error

    class Answered(Message):
        """What another shape would change, or why not."""

        def __init__(self, shape: str, told: Difference | str, lines: list[str]) -> None:
            super().__init__()
            self.shape, self.told, self.lines = shape, told, lines

    class ChangedSince(Message):
        """Nothing was scaled: the plan has changed since the difference was shown."""

        def __init__(self, shape: str, now: Difference) -> None:
            super().__init__()
            self.shape, self.now = shape, now

    def __init__(
        self,
        source: Source,
        actions: Actions,
        first: Picture,
        *,
        glyphs: Glyphs,
        colour: bool = True,
        read_only: bool = False,
        period_s: float = 0.5,
    ) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.model = Model(first, glyphs, read_only=read_only)
        self.crash: Exception | None = None
        self.ended_by: str = ""  #: the signal that ended the viewer, if one did
        self._actions = actions
        self._colour = colour
        self._drawing = Drawing()
        self._surface = Surface(self.repaint, colour=colour, ascii_only=glyphs.plot == "ascii")
        self._feed = Feed(source, self._deliver, self._fail, period_s=period_s)
        self._heard, self._heard_at = first, time.monotonic()
        self._busy = False

    def compose(self) -> ComposeResult:
        """One surface: its lines are made elsewhere."""
        yield self._surface

    def on_mount(self) -> None:
        """Begin to look at the run; a signal ends the viewer in good order."""
        loop = asyncio.get_running_loop()
        with suppress(ValueError, RuntimeError):  # not the main thread: signals are somebody else's
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self._on_signal, number.name)
        self.app_resume_signal.subscribe(self, lambda _app: self.refresh(layout=True))
        self.set_interval(1.0, self._note_lateness)
        self._feed.start()
        self.repaint()

    def on_unmount(self) -> None:
        """The feed ends with the screen."""
        self._feed.close()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Where only ASCII can be shown, nothing else is written, whoever drew it."""
        known = list(super().get_line_filters())
        return [*known, AsciiOnly()] if self.model.scene.glyphs.plot == "ascii" else known

    def repaint(self) -> None:
        """Draw the scene; only rows that have changed are painted."""
        size = self._surface.size
        self._surface.show(self._drawing.draw(self.model.scene, size.width, size.height))

    def on_key(self, event: events.Key) -> None:
        """Every key goes through the model; the palette, while it is open, has its own."""
        if len(self.screen_stack) > 1:
            return
        event.stop()
        self.carry_out(self.model.press(event.key, event.character))

    def run_command(self, name: str) -> None:
        """A command of the palette."""
        self.carry_out(self.model.do(name))

    def carry_out(self, effect: Effect | None) -> None:
        """Do what a key asked for, and show where that leaves things."""
        model = self.model
        if effect is not None and model.allows(effect):
            match effect:
                case Leave():
                    self.exit()
                case OpenPalette():
                    self.action_command_palette()
                case WriteCheckpoint():
                    self._act("writing a checkpoint", self._actions.checkpoint)
                case Rescale(shape, shown):
                    self._act(f"scaling to {shape}", lambda progress: self._scale(shape, shown, progress))
                case StopRun():
                    self._act("stopping", self._actions.stop)
                case AskDifference(shape):
                    self._in_background(lambda: self._ask(shape))
        self._feed.pause(model.scene.paused)
        self._feed.turn_to(model.scene.view_name, model.component)
        self.repaint()

    def action_leave(self) -> None:
        """Ctrl-C and Ctrl-Q leave the viewer, whatever is open; the run is not touched."""
        self.exit()

    def action_command_palette(self) -> None:
        """Our palette: the commands of the keys, found by name."""
        if len(self.screen_stack) == 1:
            self.push_screen(Palette(providers=[RunCommands]))

    def on_run_app_seen(self, message: Seen) -> None:
        """Another look at the run."""
        self._heard, self._heard_at = message.picture, time.monotonic()
        self.model.see(message.picture, message.extra)
        self._feed.turn_to(self.model.scene.view_name, self.model.component)
        self.repaint()

    def on_run_app_told(self, message: Told) -> None:
        """A step of an action, or its result."""
        self.model.tell(message.line)
        self.repaint()

    def on_run_app_answered(self, message: Answered) -> None:
        """The difference that was asked for."""
        self.model.answered(message.shape, message.told, message.lines)
        self.repaint()

    def on_run_app_changed_since(self, message: ChangedSince) -> None:
        """The change that was confirmed is not the one that would be made."""
        self.model.changed_since(message.shape, message.now, _lines(message.now))
        self.repaint()

    def on_run_app_failed(self, message: Failed) -> None:
        """A fault of the viewer's own ends it, as it would have in this thread."""
        raise message.error

    def _fail(self, error: Exception) -> None:
        self.post_message(self.Failed(error))

    def _deliver(self, picture: Picture, extra: Extra) -> None:
        self.post_message(self.Seen(picture, extra))

    def _note_lateness(self) -> None:
        """A host that keeps the feed waiting makes the picture old, and an old one older: it is shown so."""
        heard, late_s = self._heard, time.monotonic() - self._heard_at
        if self.model.scene.paused or heard.ended or (heard.live and late_s < _LATE_AFTER_S):
            return
        problem = heard.problem or "no answer so far"
        older = replace(heard, live=False, age_s=heard.age_s + late_s, problem=problem)
        self.model.see(older, self.model.scene.extra)
        self.repaint()

    def _act(self, what: str, action: Callable[[Callable[[str], None]], str]) -> None:
        if self._busy:
            self.model.tell("one thing at a time: the last is not done yet")
            return
        self._busy = True
        self.model.tell(f"{what} …" if self.model.scene.glyphs.plot != "ascii" else f"{what} ...")

        def work() -> None:
            try:
                told = action(self._step)
            except TianjiError as error:
                told = _story(error)
            self._busy = False
            if told:
                self._step(told)

        self._in_background(work)

    def _scale(self, shape: str, shown: Difference, progress: Callable[[str], None]) -> str:
        told = self._actions.scale(shape, shown, progress)
        if isinstance(told, str):
            return told
        self.post_message(self.ChangedSince(shape, told))
        return ""

    def _step(self, line: str) -> None:
        self.post_message(self.Told(line))

    def _ask(self, shape: str) -> None:
        try:
            found = self._actions.difference(shape)
        except TianjiError as error:
            self.post_message(self.Answered(shape, _story(error), []))
        else:
            self.post_message(self.Answered(shape, found, _lines(found)))

    def _in_background(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as error:  # no TianjiError: a fault of the viewer's own
                self._fail(error)

        # A daemon: leaving does not wait for what the run itself goes on with.
        threading.Thread(target=guarded, name="tianjictl-action", daemon=True).start()

    def _on_signal(self, name: str) -> None:
        self.ended_by = name
        self.exit()

    def _handle_exception(self, error: Exception) -> None:
        if self.crash is None:
            self.crash = error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Textual's way out without its page of traceback: who started the viewer reports what happened."""
        self._close_messages_no_wait()


def _lines(change: Difference) -> list[str]:
    return [*difference_lines(change), *change.notes]


def _story(error: TianjiError) -> str:
    return error.message + (f"; {error.hint}" if error.hint else "")
