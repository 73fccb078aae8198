"""One cell for each core of a host: whose it is by letter and colour, how busy it is by brightness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.states import ComponentState
from runtime.contract.view import HostView
from tianjictl.tui.glyphs import LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runtime.contract.view import ComponentView
    from tianjictl.tui.glyphs import Glyphs
    from tianjictl.tui.text import Line, Span

_ORDER = {role: rank for rank, role in enumerate(LETTERS)}  #: where several share a core, the first gives the letter
_GONE = frozenset({ComponentState.FAILED, ComponentState.AWAY})
_LEFT = frozenset({ComponentState.EXITED, ComponentState.PENDING})
_BRIGHT_FROM, _PLAIN_FROM = 66.0, 33.0  #: percent of a core


def by_host(components: Iterable[ComponentView]) -> dict[str, list[ComponentView]]:
    """Components by the name of their host."""
    found: dict[str, list[ComponentView]] = {}
    for component in components:
        found.setdefault(component.host, []).append(component)
    return found


def cells(host: HostView, components: Iterable[ComponentView], glyphs: Glyphs) -> list[Span]:
    """A letter for each core, in the order of their numbers; neighbours alike in style are not joined."""
    if host.state == "lost":
        return [("x", "bad")] * len(_cores_of(host, components))
    owner: dict[int, ComponentView] = {}
    busy: dict[int, float] = {}
    for component in components:
        if component.state in _LEFT:
            continue
        share = (component.cpu_percent or 0.0) / (len(component.cores) or 1)
        for core in component.cores:
            busy[core] = busy.get(core, 0.0) + share
            if core not in owner or _ORDER[component.role] < _ORDER[owner[core].role]:
                owner[core] = component
    return [_cell(owner.get(core), busy.get(core, 0.0), glyphs) for core in _cores_of(host, components)]


def _cores_of(host: HostView, components: Iterable[ComponentView]) -> list[int]:
    return sorted(set(host.cores).union(*(component.cores for component in components)))


def _cell(owner: ComponentView | None, busy: float, glyphs: Glyphs) -> Span:
    if owner is None:
        return glyphs.free, "dim"
    if owner.state in _GONE:
        return "x", "bad"
    level = "hi" if busy >= _BRIGHT_FROM else "mid" if busy >= _PLAIN_FROM else "low"
    return LETTERS[owner.role], f"{owner.role} {level}"


def joined(spans: Iterable[Span]) -> Line:
    """Neighbours of one style as one span: fewer pieces to draw."""
    made: list[Span] = []
    for text, style in spans:
        if made and made[-1][1] == style:
            made[-1] = (made[-1][0] + text, style)
        else:
            made.append((text, style))
    return tuple(made)


def rows(spans: list[Span], width: int) -> list[Line]:
    """The cells over as many lines of `width` as they need, at least one."""
    return [joined(spans[start : start + width]) for start in range(0, max(1, len(spans)), max(1, width))]


def cut_row(spans: list[Span], width: int) -> Line:
    """The cells in one line; where they do not fit, how many more there are."""
    if len(spans) <= width:
        return joined(spans)
    more = f"+{len(spans) - max(0, width - 4)}"
    kept = max(0, width - len(more))
    more = f"+{len(spans) - kept}"
    return (*joined(spans[:kept]), (more, "dim"))


def busy_percent(components: Iterable[ComponentView]) -> float:
    """What all of them take together, in percent of one core."""
    return sum(component.cpu_percent or 0.0 for component in components)


def legend(components: Iterable[ComponentView], glyphs: Glyphs) -> Line:
    """What the letters mean, of those roles that there are."""
    words: list[Span] = []
    present = {component.role for component in components}
    for role, letter in LETTERS.items():
        if role not in present:
            continue
        words += [(letter, f"{role} hi"), (f" {role}  ", "dim")]
    return (*words, (glyphs.free, "dim"), (" free  ", "dim"), ("x", "bad"), (" lost", "dim"))


def hosts_with(hosts: Iterable[HostView], placed: Mapping[str, list[ComponentView]]) -> list[HostView]:
    """The hosts, and those that only components name (a view of an older run may have no hosts)."""
    known = list(hosts)
    named = {host.name for host in known}

    return known + [HostView(name=name, state="waiting") for name in placed if name not in named]
