"""Which key does what: the one list that the model, the help and the command palette are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tianjictl.tui.dialogs import boxed
from tianjictl.tui.scene import VIEWS
from tianjictl.tui.text import beside, fit, line

if TYPE_CHECKING:
    from tianjictl.tui.scene import Scene
    from tianjictl.tui.text import Lines


@dataclass(frozen=True, slots=True)
class Command:
    """A name for what a key does, the keys as Textual names them, and what the help says."""

    name: str
    keys: tuple[str, ...]
    shown: str
    help: str
    acts: bool = False  #: touches the run: not there in a viewer that may only read
    in_palette: bool = True


_VIEW_HELP = {
    "overview": "everything at once",
    "components": "all components",
    "hosts": "hosts, their cores, links",
    "logs": "log of one component",
    "plan": "the plan, and why",
    "checkpoints": "checkpoints",
    "events": "what happened, and why",
}
COMMANDS: tuple[Command, ...] = (
    *(Command(name, (str(number),), str(number), _VIEW_HELP[name]) for number, name in enumerate(VIEWS, 1)),
    Command("next view", ("tab",), "Tab", "the next view", in_palette=False),
    Command("up", ("up", "k"), "up k", "move; also PgUp, End, g", in_palette=False),
    Command("down", ("down", "j"), "down j", "", in_palette=False),
    Command("page up", ("pageup", "ctrl+b"), "", "", in_palette=False),
    Command("page down", ("pagedown", "ctrl+f"), "", "", in_palette=False),
    Command("first", ("home", "g"), "", "", in_palette=False),
    Command("last", ("end", "G"), "", "", in_palette=False),
    Command("open", ("enter",), "Enter", "its log, or the whole row", in_palette=False),
    Command("log", ("l",), "l", "log of the component", in_palette=False),
    Command("whole", ("v",), "v", "the whole row, uncut"),
    Command("previous log", ("left_square_bracket",), "[ ]", "log of another component", in_palette=False),
    Command("next log", ("right_square_bracket",), "", "", in_palette=False),
    Command("filter", ("slash",), "/", "filter; !word leaves out"),
    Command("sort", ("s",), "s", "sort by something else"),
    Command("back", ("escape",), "Esc", "no filter, then overview", in_palette=False),
    Command("pause", ("space",), "space", "stand still, or go on"),
    Command("checkpoint", ("c",), "c", "write a checkpoint now", acts=True),
    Command("scale", ("x",), "x", "other learners and actors", acts=True),
    Command("stop", ("S",), "S", "stop the training", acts=True),
    Command("palette", ("colon",), ": ^p", "find a command by name", in_palette=False),
    Command("help", ("question_mark",), "?", "this"),
    Command("leave", ("q",), "q", "leave; training goes on"),
)
_BY_KEY = {key: command for command in COMMANDS for key in command.keys}
_TWO_COLUMNS_FROM = 76
_HELP_CELLS = 33
#: What palettes call a command, where its name says too little.
TITLES = {
    "whole": "View the whole row",
    "pause": "Pause or go on",
    "checkpoint": "Write a checkpoint",
    "scale": "Scale the training",
    "stop": "Stop the training",
    "leave": "Leave the viewer",
}


def command_of(key: str, *, read_only: bool) -> Command | None:
    """What a key does, if anything."""
    found = _BY_KEY.get(key)
    return None if found is not None and found.acts and read_only else found


def title_of(command: Command) -> str:
    """The command as the palette lists it."""
    return TITLES.get(command.name, f"View {command.name}" if command.name in VIEWS else command.name.capitalize())


def help_box(scene: Scene, cells: int) -> Lines:
    """All keys, in two columns where there is room for them."""
    told = [c for c in COMMANDS if c.help and not (c.acts and scene.read_only)]
    rows = [line((fit(command.shown, 8), "key"), command.help) for command in told]
    if cells >= _TWO_COLUMNS_FROM:
        half = (len(rows) + 1) // 2
        rows = beside([(rows[:half], _HELP_CELLS), (rows[half:], _HELP_CELLS)], half, ellipsis=scene.glyphs.ellipsis)
    return boxed("keys", [], [*rows, (("any key closes this", "dim"),)], cells, scene.glyphs)
