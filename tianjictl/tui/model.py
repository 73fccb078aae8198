"""What keys do to what is shown. No terminal here: a key and a picture go in, another scene and effects come out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.contract.log_files import natural
from tianjictl.tui.dialogs import AskShape, Confirm
from tianjictl.tui.effects import ACTIONS, Leave, OpenPalette, Rescale, StopRun, WriteCheckpoint
from tianjictl.tui.keys import command_of
from tianjictl.tui.scene import COMPONENT_SORTS, HOST_SORTS, VIEWS, Browse, Scene
from tianjictl.tui.tables import is_in_trouble, sorted_components
from tianjictl.tui.views import lists, reading
from tianjictl.tui.views.whole import whole_of

if TYPE_CHECKING:
    from runtime.contract.operator import Difference
    from tianjictl.runs.client import Picture
    from tianjictl.tui.effects import Effect
    from tianjictl.tui.glyphs import Glyphs
    from tianjictl.tui.scene import Extra, ViewName

_PAGE = 10
_FOLLOWING = ("logs", "events")  #: views that show their end unless scrolled back
_LOGS_FROM = ("overview", "components")  #: views in which Enter opens a log
_CURSORS = ("components", "hosts", "checkpoints")
_BESIDE_COMPONENTS = ("agent", "coordinator", "forkserver")  #: who else writes logs


class Model:
    """The scene that is shown, and what becomes of it."""

    def __init__(self, picture: Picture, glyphs: Glyphs, *, read_only: bool = False) -> None:
        self.scene = Scene(picture, glyphs=glyphs, read_only=read_only)
        self._places: dict[ViewName, Browse] = {}
        self.component = ""  #: whose log is looked at
        self._others: list[str] = []  #: whose log is opened where nobody has chosen one and that one is empty

    def see(self, picture: Picture, extra: Extra) -> None:
        """The newest look at the run."""
        self.scene = replace(self.scene, picture=picture, extra=extra)
        if self._others and extra.log_of == self.component and extra.log == () and not extra.problem:
            self.component = self._others.pop(0)

    def tell(self, message: str) -> None:
        """Show a message in place of the keys, until the next key."""
        self.scene = replace(self.scene, message=message)

    def press(self, key: str, character: str | None = None) -> Effect | None:
        """One key, by Textual's name for it, and the character it makes."""
        scene = self.scene
        if scene.dialog is not None:
            dialog, effect = scene.dialog.press(key, character)
            self.scene = replace(scene, dialog=dialog)
            return effect
        if scene.helping:
            self.scene = replace(scene, helping=False)
            return None
        if scene.typing:
            self._type(key, character)
            return None
        if scene.message:
            self.scene = replace(scene, message="")
        command = command_of(key, read_only=scene.read_only)
        return None if command is None else self.do(command.name)

    def do(self, name: str) -> Effect | None:
        """A command by its name in `keys.py`."""
        if name in VIEWS:
            self._turn(name)
            return None
        match name:
            case "leave":
                return Leave()
            case "palette":
                return OpenPalette()
            case "help":
                self.scene = replace(self.scene, helping=True)
            case "pause":
                self.scene = replace(self.scene, paused=not self.scene.paused)
            case "filter":
                if self.scene.view_name == "overview":
                    self._turn("components")
                self.scene = replace(self.scene, typing=True)
            case "checkpoint" | "scale" | "stop":
                self._ask(name)
            case _:
                self._navigate(name)
        return None

    def answered(self, shape: str, told: Difference | str, lines: list[str]) -> None:
        """What a shape would change, or why it is refused; heeded only where the person still waits for it."""
        asked = self.scene.dialog
        if not isinstance(asked, AskShape) or not asked.asking or asked.typed != shape:
            return
        if isinstance(told, str):
            self.scene = replace(self.scene, dialog=replace(asked, asking=False, refused=told))
            return
        self.scene = replace(self.scene, dialog=_confirm_scale(shape, told, lines))

    def changed_since(self, shape: str, now: Difference, lines: list[str]) -> None:
        """Nothing was scaled, as the change would not be the one that was confirmed: it is shown, and asked again."""
        self.tell(f"not scaled to {shape}: the plan has changed meanwhile")
        if self.scene.dialog is None:
            why = "The plan has changed meanwhile; now this would be done:"
            self.scene = replace(self.scene, dialog=_confirm_scale(shape, now, [why, *lines]))

    def allows(self, effect: Effect) -> bool:
        """Whether this viewer may do that."""
        return not (self.scene.read_only and isinstance(effect, ACTIONS))

    def _ask(self, what: str) -> None:
        view = self.scene.view
        if self.scene.picture.ended:
            self.tell(
                f"the run is over ({view.state}): there is nothing to {'write' if what == 'checkpoint' else what}"
            )
            return
        if what == "scale":
            advised = view.advice.shape if view.advice is not None else ""
            dialog: Confirm | AskShape = AskShape(view.shape.wanted, advised)
        elif what == "stop":
            told = ("It writes a last checkpoint and can be resumed.", f"This ends {view.run_id} for everybody.")
            dialog = Confirm("stop the training?", told, "Stop", StopRun())
        else:
            dialog = Confirm("write a checkpoint now?", ("Training goes on meanwhile.",), "Write", WriteCheckpoint())
        self.scene = replace(self.scene, dialog=dialog)

    def _type(self, key: str, character: str | None) -> None:
        browse = self.scene.browse
        if key == "enter":
            self.scene = replace(self.scene, typing=False)
        elif key in ("escape", "ctrl+c"):
            self.scene = replace(self.scene, typing=False, browse=replace(browse, filter=""))
        elif key == "backspace":
            self.scene = replace(self.scene, browse=replace(browse, filter=browse.filter[:-1]))
        elif character is not None and character.isprintable():
            longer = replace(browse, filter=browse.filter + character, cursor=0, chosen="", back=0)
            self.scene = replace(self.scene, browse=longer)

    def _turn(self, view: ViewName) -> None:
        self._places[self.scene.view_name] = self.scene.browse
        if view == "logs" and not self.component:
            first, *others = self._worth_reading()
            self.component, self._others = first, [*others, first]
        self.scene = replace(self.scene, view_name=view, browse=self._places.get(view, Browse()))

    def _navigate(self, name: str) -> None:
        view = self.scene.view_name
        if name == "next view":
            self._turn(VIEWS[(VIEWS.index(view) + 1) % len(VIEWS)])
        elif name == "back":
            if self.scene.browse.filter:
                self.scene = replace(self.scene, browse=replace(self.scene.browse, filter=""))
            else:
                self._turn("overview")
        elif name == "sort":
            self._sort()
        elif name == "log" or (name == "open" and self.scene.view_name in _LOGS_FROM):
            self._open_log()
        elif name in ("open", "whole"):
            self.scene = replace(self.scene, dialog=whole_of(self.scene))
        elif name in ("previous log", "next log"):
            self._other_log(1 if name == "next log" else -1)
        else:
            steps = {"up": -1, "down": 1, "page up": -_PAGE, "page down": _PAGE, "first": -(1 << 30), "last": 1 << 30}
            self._move(steps.get(name, 0))

    def _sort(self) -> None:
        sorts = {"components": COMPONENT_SORTS, "hosts": HOST_SORTS}.get(self.scene.view_name, ())
        if sorts:
            browse = self.scene.browse
            following = sorts[(sorts.index(browse.sort) + 1) % len(sorts)]
            self.scene = replace(self.scene, browse=replace(browse, sort=following))

    def _names(self) -> list[str]:
        """What the cursor moves over."""
        match self.scene.view_name:
            case "components":
                return [component.name for component in lists.listed_components(self.scene)]
            case "hosts":
                hosts = lists.listed_hosts(self.scene)
                return lists.names_of_hosts(hosts, lists.listed_links(self.scene) if hosts else [])
            case _:
                return [str(item.step) for item in lists.listed_checkpoints(self.scene)]

    def _move(self, steps: int) -> None:
        browse, view = self.scene.browse, self.scene.view_name
        if view in _FOLLOWING:
            shown = reading.listed_lines(self.scene) if view == "logs" else reading.listed_events(self.scene)
            most = len(shown)
            moved = replace(browse, back=min(max(0, browse.back - steps), max(0, most - 1)))
        elif view in _CURSORS:
            names = self._names()
            cursor = max(0, min(lists.cursor_of(names, browse) + steps, len(names) - 1))
            moved = replace(browse, cursor=cursor, chosen=names[cursor] if names else "")
        else:
            moved = replace(browse, cursor=max(0, min(browse.cursor + steps, 1 << 20)))
        self.scene = replace(self.scene, browse=moved)

    def _open_log(self) -> None:
        if self.scene.view_name == "components":
            names = self._names()
            if names:
                self.component = names[lists.cursor_of(names, self.scene.browse)]
                self._others = []
        if self.scene.view_name in _LOGS_FROM:
            self._turn("logs")

    def _writers(self) -> list[str]:
        return [*sorted((component.name for component in self.scene.view.components), key=natural), *_BESIDE_COMPONENTS]

    def _worth_reading(self) -> list[str]:
        """The one in trouble, else the coordinator, which knows of all; then the others."""
        ordered = sorted_components(self.scene.view.components, "trouble")
        first = [component.name for component in ordered if is_in_trouble(component.state)][:1]
        return list(dict.fromkeys([*first, "coordinator", "agent", *(component.name for component in ordered)]))

    def _other_log(self, step: int) -> None:
        if self.scene.view_name != "logs":
            return
        names = self._writers()
        at = names.index(self.component) if self.component in names else 0
        self.component = names[(at + step) % len(names)]
        self._others = []
        self.scene = replace(self.scene, browse=replace(self.scene.browse, back=0))


def _confirm_scale(shape: str, told: Difference, lines: list[str]) -> Confirm:
    title = f"scale from {told.shape_before} to {told.shape_after}?"
    return Confirm(title, tuple(lines), "Scale", Rescale(shape, told))
