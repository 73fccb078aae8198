"""Rows of components and hosts: sorted with trouble first, filtered, cut to the width there is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.contract.log_files import natural
from runtime.contract.states import ComponentState, Role
from tianjictl.runs.words import cores, size
from tianjictl.tui.glyphs import component_mark
from tianjictl.tui.text import clean, fit, fit_line, fitting, restyled, width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from runtime.contract.view import ComponentView, HostView
    from tianjictl.tui.glyphs import Glyphs
    from tianjictl.tui.text import Line, Span

#: The more it needs a person, the earlier it comes.
_TROUBLE = {
    state: rank
    for rank, state in enumerate(
        (
            ComponentState.FAILED,
            ComponentState.AWAY,
            ComponentState.FROZEN,
            ComponentState.BACKOFF,
            ComponentState.STARTING,
            ComponentState.STOPPING,
            ComponentState.PENDING,
            ComponentState.RUNNING,
            ComponentState.EXITED,
        )
    )
}
_HOST_TROUBLE = {"lost": 0, "waiting": 1, "connected": 2, "ended": 2}
_ROLES = {role: rank for rank, role in enumerate((Role.LEARNER, Role.BUFFER, Role.ACTOR, Role.EVALUATOR, Role.COURIER))}
_NOTHING_TO_TELL = ("", "working")
_REASON_CELLS = 20
_WORDS = {ComponentState.BACKOFF: "restarting"}


def sorted_components(components: Iterable[ComponentView], sort: str) -> list[ComponentView]:
    """By `sort`; names and roles decide between equals, so that rows keep their places."""
    keys: dict[str, Callable[[ComponentView], Any]] = {
        "trouble": lambda c: _TROUBLE[c.state],
        "cpu": lambda c: -(c.cpu_percent or 0.0),
        "memory": lambda c: -(c.rss_bytes or 0),
        "restarts": lambda c: -c.restarts,
        "heartbeat": lambda c: -(c.heartbeat_age_s or 0.0),
        "host": lambda c: natural(c.host),
    }
    first = keys.get(sort, _alike)
    return sorted(components, key=lambda c: (first(c), _ROLES[c.role], natural(c.name)))


def sorted_hosts(hosts: Iterable[HostView], placed: Mapping[str, Sequence[ComponentView]], sort: str) -> list[HostView]:
    """By `sort`, then by name."""

    def cpu(host: HostView) -> float:
        return sum(component.cpu_percent or 0.0 for component in placed.get(host.name, ()))

    keys: dict[str, Callable[[HostView], Any]] = {
        "trouble": lambda h: (_HOST_TROUBLE.get(h.state, 1), not h.reason),
        "cpu": lambda h: -cpu(h),
        "cores": lambda h: -len(h.cores),
        "heartbeat": lambda h: -(h.heartbeat_age_s or 0.0),
    }
    first = keys.get(sort, _alike)
    return sorted(hosts, key=lambda h: (first(h), not h.head, natural(h.name)))


def _alike(_item: object) -> int:
    return 0


def matches(filter: str, *texts: str) -> bool:
    """Whether any of `texts` contains every word of the filter; a word led by `!` must be in none of them."""
    all_of_it = "\n".join(texts).lower()
    return all(
        (word[1:] not in all_of_it if len(word) > 1 else True) if word.startswith("!") else word in all_of_it
        for word in filter.lower().split()
    )


def filtered_components(components: Iterable[ComponentView], filter: str) -> list[ComponentView]:
    """Those whose name, role, host, state or reason matches."""
    if not filter:
        return list(components)
    return [c for c in components if matches(filter, c.name, c.role, c.host, c.state, state_word(c.state), c.reason)]


def filtered_hosts(hosts: Iterable[HostView], filter: str) -> list[HostView]:
    """Those whose name, state or reason matches."""
    return [host for host in hosts if matches(filter, host.name, host.state, host.reason)] if filter else list(hosts)


def state_word(state: ComponentState) -> str:
    """The state as people say it."""
    return _WORDS.get(state, state.value)


def summary(components: Iterable[ComponentView]) -> Line:
    """`192 actors running, 3 restarting, 1 failed; 4 learners, 4 buffers running`: roles with trouble first."""
    states: dict[Role, Counter[ComponentState]] = {}
    for component in components:
        states.setdefault(component.role, Counter())[component.state] += 1
    alike: dict[ComponentState, list[str]] = {}
    mixed: list[Line] = []
    for role in sorted(states, key=_ROLES.__getitem__):
        counted = states[role]
        if len(counted) == 1:
            [(state, count)] = counted.items()
            alike.setdefault(state, []).append(f"{count} {role}{'s' if count > 1 else ''}")
        else:
            mixed.append(_mixed(role, counted))
    together: list[Line] = [
        ((f"{', '.join(names)} {state_word(state)}", "bad" if is_in_trouble(state) else ""),)
        for state, names in sorted(alike.items(), key=lambda item: _TROUBLE[item[0]])
    ]
    spans: list[Span] = []
    for part in (*mixed, *together):
        spans += [("; ", ""), *part] if spans else part
    return tuple(spans) or (("no components yet", "dim"),)


def _mixed(role: Role, counted: Counter[ComponentState]) -> Line:
    """Those of one role, the running ones first, then by how much they need a person."""
    ordered = sorted(counted.items(), key=lambda item: (item[0] is not ComponentState.RUNNING, _TROUBLE[item[0]]))
    spans: list[Span] = []
    for number, (state, count) in enumerate(ordered):
        noun = "" if number else f" {role}{'s' if count > 1 else ''}"
        spans.append(
            (f"{', ' if number else ''}{count}{noun} {state_word(state)}", "bad" if is_in_trouble(state) else "")
        )
    return tuple(spans)


def is_in_trouble(state: ComponentState) -> bool:
    """Whether it needs a person, or soon may."""
    return _TROUBLE[state] <= _TROUBLE[ComponentState.BACKOFF]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its header, its cells' width, and how to make a cell."""

    header: str
    cells: int
    of: Callable[[ComponentView], str]
    right: bool = False


def component_columns(
    components: Sequence[ComponentView], wide: int, *, older_s: float = 0.0, told: bool = False
) -> list[Column]:
    """The columns that fit `wide` cells; the widths do not depend on which rows are in sight.

    With `told` columns make room for the reasons, where there are any.
    """
    reasons = told and any(component.reason not in _NOTHING_TO_TELL for component in components)
    several = len({component.host for component in components}) > 1
    name = max((width(component.name) for component in components), default=9)
    host = max((width(component.host) for component in components), default=4)
    cpus = max((len(cores(component.cores)) for component in components), default=5)
    columns = [
        Column("component", min(24, max(9, name)), lambda c: clean(c.name)),
        Column("state", 10, lambda c: state_word(c.state)),
        Column("host", min(20, max(4, host)), lambda c: clean(c.host)),
        Column("cores", min(14, max(5, cpus)), lambda c: cores(c.cores)),
        Column("cpu", 5, lambda c: "-" if c.cpu_percent is None else f"{c.cpu_percent:.0f}%", right=True),
        Column("memory", 9, lambda c: size(c.rss_bytes), right=True),
        Column("lives", 5, lambda c: str(c.restarts + 1), right=True),
        Column("beat", 6, lambda c: _beat(c, older_s), right=True),
        Column("pid", 7, lambda c: str(c.pid or "-"), right=True),
    ]
    if not several:
        columns = [column for column in columns if column.header != "host"]
    for dispensable in ("pid", "beat", "memory", "lives", "cores", "host", "cpu"):
        spare = _REASON_CELLS if reasons and dispensable in ("pid", "beat", "memory", "lives") else 0
        if _taken(columns) + spare <= wide:
            break
        columns = [column for column in columns if column.header != dispensable]
    return columns


def _taken(columns: Sequence[Column]) -> int:
    return 2 + sum(column.cells + 1 for column in columns) - 1


def _beat(component: ComponentView, older_s: float) -> str:
    age_s = component.heartbeat_age_s
    if age_s is None:
        return "-"
    age_s = max(0.0, age_s + older_s)
    return f"{age_s:.1f} s" if age_s < 100 else f"{age_s:.0f} s"


def header(columns: Sequence[Column], wide: int, *, last: str = "", ellipsis: str = "…") -> Line:
    """The line above the rows; `last` names what takes the rest of the width."""
    text = "  " + " ".join(fit(column.header, column.cells, right=column.right) for column in columns)
    return fit_line(((f"{text} {last}".rstrip(), "label"),), wide, ellipsis)


def component_row(
    component: ComponentView, columns: Sequence[Column], wide: int, glyphs: Glyphs, *, chosen: bool = False
) -> Line:
    """One component: symbol, cells, and why it is not simply working, or else what it measures."""
    mark, style = component_mark(glyphs, component.state)
    spans: list[Span] = [(mark, style)]
    for number, column in enumerate(columns):
        text = fit(column.of(component), column.cells, right=column.right, ellipsis=glyphs.ellipsis)
        shown = component.role.value if number == 0 else style if column.header == "state" else ""
        spans += [(" ", ""), (text, shown)]
    rest = wide - _taken(columns) - 2
    if rest >= 8:
        told = "" if component.state is ComponentState.RUNNING else style
        spans += [("  ", ""), (glyphs.shown(_told(component, rest)), told)]
    row = fit_line(tuple(spans), wide, glyphs.ellipsis)
    return restyled(row, "reverse") if chosen else row


def _told(component: ComponentView, cells: int) -> str:
    """The reason, where there is one to tell; else as many measures of its work as fit."""
    if component.reason not in _NOTHING_TO_TELL:
        return clean(component.reason)
    parts: list[Line] = [((f"{clean(name)} {value:.3g}", ""),) for name, value in component.gauges.items()]
    shown = "".join(text for text, _style in fitting(parts, ("  ", ""), cells))
    return shown if width(shown) <= cells else ""


def window(heights: Sequence[int], cursor: int, room: int) -> tuple[int, int]:
    """The first and one past the last item that are shown in `room` lines, so that the cursor's is among them.

    `heights` are the lines that each item takes. The cursor is kept in the middle where there is more on both sides.
    """
    if sum(heights) <= room:
        return 0, len(heights)
    cursor = min(max(cursor, 0), len(heights) - 1)
    first, last, used = cursor, cursor + 1, heights[cursor]
    while True:
        up = first > 0 and used + heights[first - 1] <= room
        down = last < len(heights) and used + heights[last] <= room
        if up and (cursor - first <= last - 1 - cursor or not down):
            first -= 1
            used += heights[first]
        elif down:
            used += heights[last]
            last += 1
        else:
            return first, last
