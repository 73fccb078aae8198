"""A whole frame: header, the view that is on, footer. The one way from a scene to a screen of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.tui.dialogs import laid_over
from tianjictl.tui.keys import help_box
from tianjictl.tui.layout import FOOTER_LINES, HEADER_LINES
from tianjictl.tui.panels.frame import padded
from tianjictl.tui.panels.head import footer, header
from tianjictl.tui.views import lists, reading
from tianjictl.tui.views.overview import Overview

if TYPE_CHECKING:
    from tianjictl.tui.scene import Scene
    from tianjictl.tui.text import Lines


class Drawing:
    """Draws frame after frame. What has not changed since the frame before is not made again."""

    def __init__(self) -> None:
        self._overview = Overview()

    def draw(self, scene: Scene, width: int, height: int) -> Lines:
        """`height` lines of exactly `width` cells: whatever was drawn before, the same for the same scene."""
        if height < 1 or width < 1:
            return []
        room = max(0, height - HEADER_LINES - FOOTER_LINES)
        head = header(scene, width)[: max(0, height - FOOTER_LINES)]
        inside: Lines = []
        if room and scene.view_name == "overview":
            inside = self._overview.body(scene, width, height)
        elif room:
            inside = padded(_body(scene, width, room), width, room, scene.glyphs)
        blank = [((" " * width, ""),)] * (room - len(inside))
        lines = [*head, *inside, *blank, footer(scene, width)]
        if scene.helping:
            return laid_over(lines, help_box(scene, width), width)
        if scene.dialog is not None:
            return laid_over(lines, scene.dialog.box(width, height, scene.glyphs), width)
        return lines


def draw(scene: Scene, width: int, height: int) -> Lines:
    """One frame, without any before it."""
    return Drawing().draw(scene, width, height)


def _body(scene: Scene, width: int, room: int) -> Lines:
    match scene.view_name:
        case "overview":  # is put together of panels, elsewhere
            return []
        case "components":
            return lists.components(scene, width, room)
        case "hosts":
            return lists.hosts(scene, width, room)
        case "checkpoints":
            return lists.checkpoints(scene, width, room)
        case "logs":
            return reading.logs(scene, width, room)
        case "plan":
            return reading.plan(scene, width, room)
        case "events":
            return reading.events(scene, width, room)
