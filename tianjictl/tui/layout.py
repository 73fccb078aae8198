"""Which panels a terminal of some size has room for, where they are and how big. Numbers in, boxes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PanelName = Literal[
    "reward", "rates", "freshness", "limits", "hosts", "components", "links", "checkpoints", "explanation", "events"
]
HEADER_LINES, FOOTER_LINES = 3, 1
GAP = 2  #: cells between columns
_TWO_COLUMNS_FROM, _THREE_COLUMNS_FROM = 72, 160


@dataclass(frozen=True, slots=True)
class Box:
    """A panel's place in cells; `y` counts from the top of the screen."""

    panel: PanelName
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Wish:
    """How few lines a panel makes sense with, how many it likes, and its share of what is left over."""

    panel: PanelName
    least: int
    likes: int
    grows: int = 0


@dataclass(frozen=True, slots=True)
class Content:
    """How much there is to show, in lines: what has little to say leaves its room to others."""

    hosts: int = 1
    components: int = 3
    links: int = 0
    explanation: int = 0
    limits: int = 1
    bins: int = 3
    limit_rows: int = 0  #: lines that the sentences on limits take over the whole width


def arrange(width: int, height: int, content: Content) -> list[Box]:
    """Boxes that do not overlap, from the header to the footer, over the whole width."""
    room = height - HEADER_LINES - FOOTER_LINES
    if room < 1 or width < 8:
        return []
    if width >= _THREE_COLUMNS_FROM and room >= 30:
        return _three_columns(width, room, content)
    if width >= _TWO_COLUMNS_FROM and room >= 18:
        return _two_columns(width, room, content)
    return _one_column(width, room, content)


def _one_column(width: int, room: int, content: Content) -> list[Box]:
    wishes = [
        Wish("rates", 4, 4),
        Wish("limits", 2, 1 + content.limits),
        Wish("freshness", 4, 4),
        Wish("reward", 4, 8, 2),
        Wish("components", 3, 3 + content.components, 2),
        Wish("hosts", 2, 1 + content.hosts, 1),
        Wish("checkpoints", 1, 1),
        Wish("events", 2, 5, 3),
    ]
    order: list[PanelName] = [
        "reward", "rates", "freshness", "limits", "components", "hosts", "links", "checkpoints", "events",
    ]  # fmt: skip
    return _stack(wishes, 0, HEADER_LINES, width, room, order=order)


def _two_columns(width: int, room: int, content: Content) -> list[Box]:
    left = (width - GAP) // 2
    right = width - GAP - left
    # A line more than there are sentences: the first one is seldom short enough for one.
    most = 2 if room < 20 else 3 if room < 24 else 5 if room < 30 else 8
    limits = min(1 + max(1 + content.limits, content.limit_rows), most)
    events = 3 if room < 24 else max(5, room // 6)
    links = min(content.links + 1, 6) if content.links and room >= 24 else 0
    band = room - limits - events - 1
    upper = 8 if room < 24 else max(8, min(14, band // 2))
    below = Content(content.hosts, content.components, content.links)
    y = HEADER_LINES
    fresh = upper - (4 if upper < 10 else 5)
    boxes = [
        Box("reward", 0, y, left, upper),
        Box("rates", left + GAP, y, right, upper - fresh),
        Box("freshness", left + GAP, y + upper - fresh, right, fresh),
        Box("limits", 0, y + upper, width, limits),
    ]
    y += upper + limits
    lower = band - upper
    wishes = [Wish("hosts", 2, 2 + below.hosts, 0 if content.explanation else 1)]
    if links and lower >= links + 3:
        wishes.append(Wish("links", min(3, links), links))
    spare = lower - 2 - below.hosts - (links if len(wishes) > 1 else 0)
    if content.explanation and spare >= 2:
        wishes.append(Wish("explanation", 2, 1 + content.explanation, 1))
    boxes += _stack(wishes, 0, y, left, lower)
    boxes.append(Box("components", left + GAP, y, right, lower))
    y += lower
    boxes.append(Box("checkpoints", 0, y, width, 1))
    boxes.append(Box("events", 0, y + 1, width, events))
    return boxes


def _three_columns(width: int, room: int, content: Content) -> list[Box]:
    """The training on the left, what runs and what happened in the middle, where it runs on the right."""
    first = (width - 2 * GAP) * 3 // 10
    second = (width - 2 * GAP) * 4 // 10
    third = width - 2 * GAP - first - second
    upper = room - 1
    y = HEADER_LINES
    training = [
        Wish("reward", 8, 18, 1),
        Wish("rates", 5, 6),
        Wish("freshness", 5, 4 + min(10, content.bins)),
        Wish("limits", 3, 2 + 2 * content.limits),
    ]
    middle = [Wish("events", 8, 8, 1), Wish("components", 5, 4 + content.components)]
    places = [Wish("hosts", 4, min(3 + content.hosts, upper * 2 // 3), 0 if content.explanation else 1)]
    if content.links:
        places.append(Wish("links", min(4, 1 + content.links), 2 + min(12, content.links)))
    if content.explanation:
        places.append(Wish("explanation", 2, 1 + 2 * content.explanation, 1))
    return [
        *_stack(training, 0, y, first, upper),
        *_stack(middle, first + GAP, y, second, upper, order=["components", "events"]),
        *_stack(places, first + second + 2 * GAP, y, third, upper),
        Box("checkpoints", 0, y + upper, width, 1),
    ]


def _stack(
    wishes: list[Wish], x: int, y: int, width: int, room: int, *, order: list[PanelName] | None = None
) -> list[Box]:
    """Panels below each other. The first wishes are met first; what is left over goes to those that grow."""
    kept: list[Wish] = []
    heights: dict[PanelName, int] = {}
    left = room
    for wish in wishes:
        if wish.least <= left:
            kept.append(wish)
            heights[wish.panel] = wish.least
            left -= wish.least
    for wish in kept:
        more = min(left, wish.likes - wish.least)
        if more > 0:
            heights[wish.panel] += more
            left -= more
    shares = sum(wish.grows for wish in kept)
    for wish in kept:
        if shares and wish.grows:
            more = left * wish.grows // shares
            heights[wish.panel] += more
            left -= more
            shares -= wish.grows
    if order is not None:
        kept.sort(key=lambda wish: order.index(wish.panel))
    boxes = []
    for wish in kept:
        boxes.append(Box(wish.panel, x, y, width, heights[wish.panel]))
        y += heights[wish.panel]
    return boxes
