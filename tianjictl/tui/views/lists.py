"""Views with a cursor: components, hosts, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.runs.afterwards import is_over
from tianjictl.runs.words import duration, size
from tianjictl.tui import strips, tables
from tianjictl.tui.glyphs import host_mark
from tianjictl.tui.panels.frame import titled
from tianjictl.tui.panels.running import link_line
from tianjictl.tui.text import clean, fit, fit_line, line, restyled, wrap

if TYPE_CHECKING:
    from runtime.contract.view import ComponentView, HostView, LinkView
    from tianjictl.runs.checkpoints import CheckpointView
    from tianjictl.tui.scene import Browse, Scene
    from tianjictl.tui.text import Line, Lines, Span


def cursor_of(names: list[str], browse: Browse) -> int:
    """Where the cursor is: on what was chosen, wherever that has got to, else where it was."""
    if browse.chosen in names:
        return names.index(browse.chosen)
    return max(0, min(browse.cursor, len(names) - 1))


def listed_components(scene: Scene) -> list[ComponentView]:
    """What the filter lets through, in the order that is shown."""
    browse = scene.browse
    return tables.sorted_components(tables.filtered_components(scene.view.components, browse.filter), browse.sort)


def components(scene: Scene, width: int, height: int) -> Lines:
    """All components: a summary, then a row for each."""
    glyphs, browse, known = scene.glyphs, scene.browse, scene.view.components
    shown = listed_components(scene)
    columns = tables.component_columns(known, width, older_s=scene.older_s)
    lines: Lines = [
        titled(_title("components", len(known), len(shown), browse.filter), width, glyphs, note=f"by {browse.sort}"),
        fit_line(tables.summary(known), width, glyphs.ellipsis),
        tables.header(columns, width, last="measures, or why not", ellipsis=glyphs.ellipsis),
    ]
    if not shown:
        return [*lines, _nothing(browse.filter, "component")]
    cursor = cursor_of([component.name for component in shown], browse)
    first, last = tables.window([1] * len(shown), cursor, max(1, height - len(lines)))
    return lines + [
        tables.component_row(component, columns, width, glyphs, chosen=first + offset == cursor)
        for offset, component in enumerate(shown[first:last])
    ]


def listed_hosts(scene: Scene) -> list[HostView]:
    """What the filter lets through, in the order that is shown."""
    browse, view = scene.browse, scene.view
    placed = strips.by_host(view.components)
    known = tables.filtered_hosts(strips.hosts_with(view.hosts, placed), browse.filter)
    return tables.sorted_hosts(known, placed, browse.sort)


def hosts(scene: Scene, width: int, height: int) -> Lines:
    """All hosts with all their cores, and below them the links."""
    glyphs, browse, view = scene.glyphs, scene.browse, scene.view
    placed = strips.by_host(view.components)
    shown = listed_hosts(scene)
    total = len(strips.hosts_with(view.hosts, placed))
    lines: Lines = [
        titled(_title("hosts", total, len(shown), browse.filter), width, glyphs, note=f"by {browse.sort}"),
        fit_line(_cores_summary(scene), width, glyphs.ellipsis),
        strips.legend(view.components, glyphs),
    ]
    if not shown:
        return [*lines, _nothing(browse.filter, "host")]
    cursor = cursor_of(names_of_hosts(shown, listed_links(scene)), browse)
    tail = _links(scene, width, height - len(lines) - len(shown), cursor - len(shown))
    name = min(24, max(len(host.name) for host in shown))
    drawn = [
        _host_rows(scene, host, placed.get(host.name, []), name, width, chosen=index == cursor)
        for index, host in enumerate(shown)
    ]
    room = max(1, height - len(lines) - len(tail))
    first, last = tables.window([len(rows) for rows in drawn], min(cursor, len(shown) - 1), room)
    body = [row for rows in drawn[first:last] for row in rows][:room]
    return [*lines, *body, *[()] * (room - len(body)), *tail]


def _cores_summary(scene: Scene) -> Line:
    view = scene.view
    states: dict[str, int] = {}
    for host in view.hosts:
        states[host.state] = states.get(host.state, 0) + 1
    told = ", ".join(f"{count} {clean(state)}" for state, count in sorted(states.items()))
    cores = sum(len(host.cores) for host in view.hosts)
    used = len({(c.host, core) for c in view.components for core in c.cores})
    if is_over(view):
        return line(f"{told}; {cores} cores")
    return line(f"{told}; {used} of {cores} cores in use")


def _host_rows(
    scene: Scene, host: HostView, components: list[ComponentView], name: int, width: int, *, chosen: bool
) -> Lines:
    """Name, numbers, cores over as many lines as they need, and why it is not simply connected."""
    glyphs = scene.glyphs
    mark, style = host_mark(glyphs, host.state)
    heard = "-" if host.heartbeat_age_s is None else f"{host.heartbeat_age_s + scene.older_s:.1f} s"
    left = (
        f"{fit(clean(host.name), name, ellipsis=glyphs.ellipsis)} {fit(clean(host.state), 9)} "
        f"{fit(f'{strips.busy_percent(components):.0f}%', 6, right=True)} {fit(heard, 7, right=True)} "
    )
    first: list[Span] = [(f"{mark} ", style), (left, "")]
    room = max(8, width - 2 - len(left))
    rows = strips.rows(strips.cells(host, components, glyphs), room)
    pad = (" " * (2 + len(left)), "")
    lines: Lines = [fit_line((*first, *rows[0]), width, glyphs.ellipsis)]
    lines += [fit_line((pad, *row), width, glyphs.ellipsis) for row in rows[1:]]
    told = _of_host(host)
    if told:
        lines.append(
            fit_line(line("    ", (told, style if host.state != "connected" else "dim")), width, glyphs.ellipsis)
        )
    return [restyled(lines[0], "reverse"), *lines[1:]] if chosen else lines


def _of_host(host: HostView) -> str:
    offset = host.clock_offset_s
    parts = [clean(host.reason)] if host.reason else []
    if offset and abs(offset) > 1:
        parts.append(f"its clock is {abs(offset):.1f} s {'ahead' if offset > 0 else 'behind'}")
    return "; ".join(parts)


def listed_links(scene: Scene) -> list[LinkView]:
    """Those with something to tell first; none of a run that is over."""
    if is_over(scene.view):
        return []
    return sorted(scene.view.links, key=lambda link: (link.state == "up", not link.reason))


def name_of_link(link: LinkView) -> str:
    """What a cursor and a title call it."""
    return f"{link.source} → {link.target}"


def names_of_hosts(hosts: list[HostView], links: list[LinkView]) -> list[str]:
    """What the cursor moves over in the view of hosts: from the last host on to the links."""
    return [*(host.name for host in hosts), *(name_of_link(link) for link in links)]


def _links(scene: Scene, width: int, room: int, cursor: int) -> Lines:
    """A window of the links with the one at `cursor`, if it is on one (else it is negative)."""
    known, glyphs = listed_links(scene), scene.glyphs
    if not known:
        return []
    first, last = tables.window([1] * len(known), max(0, cursor), max(4, room) - 1)
    lines: Lines = [titled(f"links {len(known)}", width, glyphs, note=_more(len(known) - (last - first)))]
    for index in range(first, last):
        row = fit_line(link_line(known[index], glyphs), width, glyphs.ellipsis)
        lines.append(restyled(row, "reverse") if index == cursor else row)
    return lines


def _more(count: int) -> str:
    return f"and {count} more" if count else ""


def listed_checkpoints(scene: Scene) -> list[CheckpointView]:
    """What the filter lets through, newest first."""
    known = scene.extra.checkpoints or ()
    return [item for item in known if tables.matches(scene.browse.filter, str(item.step), item.shape or "", item.path)]


def checkpoints(scene: Scene, width: int, height: int) -> Lines:
    """All checkpoints, newest first."""
    glyphs, browse, known = scene.glyphs, scene.browse, scene.extra.checkpoints
    if known is None:
        return [titled("checkpoints", width, glyphs), line((scene.extra.problem or "reading", "dim"))]
    shown = listed_checkpoints(scene)
    head = f"  {'step':>14} {fit('state', 9)} {fit('age', 13)} {fit('shape', 8)} {'size':>10}  path"
    lines: Lines = [
        titled(_title("checkpoints", len(known), len(shown), browse.filter), width, glyphs),
        fit_line(line((head, "label")), width, glyphs.ellipsis),
    ]
    if not shown:
        return [*lines, _nothing(browse.filter, "checkpoint")]
    cursor = cursor_of([str(item.step) for item in shown], browse)
    first, last = tables.window([1] * len(shown), cursor, max(1, height - len(lines)))
    for index in range(first, last):
        row = _checkpoint_row(shown[index], scene, width)
        lines.append(restyled(row, "reverse") if index == cursor else row)
    return lines + _told_whole(shown[cursor], scene, width, height - len(lines))


def _told_whole(item: CheckpointView, scene: Scene, width: int, room: int) -> Lines:
    """Where there is room, the folder of the one under the cursor, and what is wrong with it, uncut."""
    rows: Lines = [()]
    for text, style in ((item.path, ""), *((problem, "bad") for problem in item.problems)):
        told = wrap(scene.glyphs.shown(clean(text)), width - 2, 3, scene.glyphs.ellipsis)
        rows += [line("  ", (row, style)) for row in told]
    return rows if len(rows) <= room else []


def _checkpoint_row(item: CheckpointView, scene: Scene, width: int) -> Line:
    whole = not item.problems
    aged = "-" if item.age_s is None else duration(item.age_s)
    told = item.path if whole else "; ".join(item.problems)
    spans = line(
        f"  {item.step:>14,} ",
        (fit("complete" if whole else "damaged", 9), "good" if whole else "bad"),
        f" {fit(aged, 13)} {fit(clean(item.shape or '-'), 8)} {size(item.bytes):>10}  {clean(told)}",
    )
    return fit_line(spans, width, scene.glyphs.ellipsis)


def _title(what: str, known: int, shown: int, filter: str) -> str:
    return f"{what} {known}" if not filter else f"{what} {shown} of {known}, filter {filter}"


def _nothing(filter: str, what: str) -> Line:
    return line((f"no {what} matches {filter}" if filter else f"no {what} yet", "dim"))
