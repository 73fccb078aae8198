"""What a frame is drawn from: the picture of the run, what else was read of it, and where the person has got to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tianjictl.tui.glyphs import BRAILLE, Glyphs

if TYPE_CHECKING:
    from runtime.contract.plan import Plan
    from runtime.contract.view import Event, RunView
    from tianjictl.runs.checkpoints import CheckpointView
    from tianjictl.runs.client import Picture
    from tianjictl.tui.dialogs import Dialog

ViewName = Literal["overview", "components", "hosts", "logs", "plan", "checkpoints", "events"]
VIEWS: tuple[ViewName, ...] = ("overview", "components", "hosts", "logs", "plan", "checkpoints", "events")

COMPONENT_SORTS = ("trouble", "name", "cpu", "memory", "restarts", "heartbeat", "host")
HOST_SORTS = ("trouble", "name", "cpu", "cores", "heartbeat")


@dataclass(frozen=True, slots=True)
class Browse:
    """Where the person is in one view: cursor and filter survive a change of view."""

    filter: str = ""
    sort: str = "trouble"
    cursor: int = 0  #: index among what the filter lets through, or the first line of a page
    chosen: str = ""  #: what the cursor is on: it stays there when the rows move
    back: int = 0  #: lines scrolled back from the end, where a view follows its end


@dataclass(frozen=True, slots=True)
class Extra:
    """What is read of the run beside its picture, when a view asks for it."""

    plan: Plan | None = None
    checkpoints: tuple[CheckpointView, ...] | None = None  #: none: not read yet
    events: tuple[Event, ...] | None = None  #: the whole log; none: not read yet
    log_of: str = ""
    log: tuple[str, ...] | None = None  #: its newest lines; none: not read yet
    problem: str = ""  #: why something could not be read


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that one frame shows."""

    picture: Picture
    view_name: ViewName = "overview"
    browse: Browse = field(default_factory=Browse)
    extra: Extra = field(default_factory=Extra)
    glyphs: Glyphs = BRAILLE
    paused: bool = False
    read_only: bool = False
    message: str = ""  #: what came of the newest action
    typing: bool = False  #: the filter is being typed
    dialog: Dialog | None = None
    helping: bool = False

    @property
    def view(self) -> RunView:
        return self.picture.view

    @property
    def older_s(self) -> float:
        """What to add to ages that were true when the view was made."""
        return 0.0 if self.picture.live else self.picture.age_s
