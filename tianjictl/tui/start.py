"""Opening the viewer, and what is said on the normal screen when it has gone."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from tianjictl.errors import Interrupted, TianjiError
from tianjictl.runs.afterwards import way_on
from tianjictl.runs.client import observe
from tianjictl.tui.actions import RunActions
from tianjictl.tui.app import RunApp
from tianjictl.tui.glyphs import ASCII, glyphs_for
from tianjictl.tui.source import RunSource

if TYPE_CHECKING:
    from tianjictl.runs.client import Picture
    from tianjictl.runs.registry import Run


def view_run(
    run: Run, *, read_only: bool = False, mouse: bool = False, period_s: float = 0.5, ascii_only: bool = False
) -> Picture:
    """Show the run until the person leaves; returns the last picture. The run is not touched by any way of leaving.

    A viewer that crashes puts the terminal back and raises TianjiError, one that a signal ends raises Interrupted.
    """
    glyphs = ASCII if ascii_only else glyphs_for(getattr(sys.__stderr__, "encoding", None), os.environ)
    app = RunApp(
        RunSource(run),
        RunActions(run),
        observe(run),
        glyphs=glyphs,
        colour=not os.environ.get("NO_COLOR"),
        read_only=read_only,
        period_s=period_s,
    )
    app.run(mouse=mouse)
    picture = app.model.scene.picture
    again = f"tianjictl top {run.run_id}"
    if app.crash is not None:
        story = f"the viewer failed ({type(app.crash).__name__}: {app.crash}); {leaving_words(picture)}"
        raise TianjiError(story, hint=f"tianjictl status {run.run_id}") from app.crash
    if app.ended_by:
        raise Interrupted(f"the viewer was ended by {app.ended_by}; {leaving_words(picture)}", hint=again)
    return picture


def leaving_words(picture: Picture) -> str:
    """What becomes of the run when nobody looks on."""
    view = picture.view
    if picture.ended:
        command = way_on(view)
        return f"{view.state}: {view.reason}" + (f"; {command} goes on with it" if command else "")
    return "it is stopping" if view.state == "stopping" else "training goes on"
