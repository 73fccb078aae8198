"""A whole frame: header, the view that is on, footer. The one function from a scene to a screen of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.tui.dialogs import laid_over
from tianjictl.tui.keys import help_box
from tianjictl.tui.layout import FOOTER_LINES, HEADER_LINES
from tianjictl.tui.panels.frame import padded
from tianjictl.tui.panels.head import footer, header
from tianjictl.tui.views import lists, overview, reading

if TYPE_CHECKING:
    from tianjictl.tui.scene import Scene
    from tianjictl.tui.text import Lines


def draw(scene: Scene, width: int, height: int) -> Lines:
    """`height` lines of exactly `width` cells."""
    if height < 1 or width < 1:
        return []
    room = max(0, height - HEADER_LINES - FOOTER_LINES)
    head = header(scene, width)[: max(0, height - FOOTER_LINES)]
    inside = _body(scene, width, height, room) if room else []
    if scene.view_name != "overview":  # which is put together of padded panels
        inside = padded(inside, width, room, scene.glyphs)
    blank = [((" " * width, ""),)] * (room - len(inside))
    lines = [*head, *inside, *blank, footer(scene, width)]
    if scene.helping:
        return laid_over(lines, help_box(scene, width), width)
    return laid_over(lines, scene.dialog.box(width, scene.glyphs), width) if scene.dialog is not None else lines


def _body(scene: Scene, width: int, height: int, room: int) -> Lines:
    match scene.view_name:
        case "overview":
            return overview.body(scene, width, height)
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
