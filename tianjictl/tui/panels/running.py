"""Panels on what runs where: hosts with their cores, components, links, checkpoints, events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.runs.words import age, checkpoint_failures, size
from tianjictl.tui import strips, tables
from tianjictl.tui.glyphs import host_mark, link_mark
from tianjictl.tui.panels.frame import more_line, titled
from tianjictl.tui.text import beside, clean, cut, fit, fitting, fold, line, wrap
from tianjictl.tui.text import width as width_of

if TYPE_CHECKING:
    from runtime.contract.view import ComponentView, Event, HostView, LinkView
    from tianjictl.tui.glyphs import Glyphs
    from tianjictl.tui.scene import Scene
    from tianjictl.tui.text import Line, Lines, Span


def limits(scene: Scene, width: int, height: int) -> Lines:
    """What limits the run, in a sentence; then what has changed, and what would be better."""
    glyphs = scene.glyphs
    lines: Lines = [titled("what limits it", width, glyphs)]
    return lines + told_in(limit_sentences(scene), width, height - 1, glyphs)


def told_in(told: list[tuple[str, str]], width: int, room: int, glyphs: Glyphs) -> Lines:
    """As many sentences as there are lines; what is left over goes to those that are longer, the first ones first."""
    shown = told[: max(0, room)]
    spare = room - len(shown)
    lines: Lines = []
    for text, style in shown:
        rows = wrap(glyphs.shown(text), width, 1 + spare, glyphs.ellipsis)
        spare -= len(rows) - 1
        lines += [line((row, style)) for row in rows]
    return lines


def limit_sentences(scene: Scene) -> list[tuple[str, str]]:
    """Sentences and their styles, the most important first."""
    view = scene.view
    found = view.bottleneck
    told = clean(found.advice or ("it is not known yet" if found.side == "unknown" else f"the {found.side}"))
    sentences = [(told, "")]
    if view.drift.reason:
        ratio = f"measured is {view.drift.ratio:.0%} of predicted: " if view.drift.ratio is not None else ""
        sentences.append((f"{ratio}{clean(view.drift.reason)}", "warn" if view.drift.drifting else ""))
    if view.advice is not None:
        gain = f" (+{view.advice.gain:.0%})" if view.advice.gain is not None else ""
        way = f"; {clean(view.advice.command)}" if view.advice.command else ""
        sentences.append((f"better: {clean(view.advice.shape)}{gain}: {clean(view.advice.reason)}{way}", "accent"))
    return sentences


def limit_count(scene: Scene) -> int:
    """How many sentences there are."""
    return 1 + bool(scene.view.drift.reason) + (scene.view.advice is not None)


def explanation(scene: Scene, width: int, height: int) -> Lines:
    """The plan's own words."""
    glyphs = scene.glyphs
    told = [(clean(text), "") for text in scene.view.predicted.explanation]
    return [titled("the plan says", width, glyphs), *told_in(told, width, height - 1, glyphs)]


_QUIET = ("connected", "ended")  #: hosts with nothing to tell


def hosts(scene: Scene, width: int, height: int) -> Lines:
    """A line for each host, trouble first: name, and a cell for each core."""
    glyphs, view = scene.glyphs, scene.view
    placed = strips.by_host(view.components)
    known = tables.sorted_hosts(strips.hosts_with(view.hosts, placed), placed, "trouble")
    lines: Lines = [titled(f"hosts {len(known)}", width, glyphs, note=_lost(view.hosts))]
    room = height - 1
    name = min(18, max((len(host.name) for host in known), default=4))
    unit = name + 9 + max((len(host.cores) for host in known), default=1)
    across = max(1, (width + 2) // (unit + 2)) if len(known) > room else 1
    told = [host for host in known if across < 2 or host.reason or host.state not in _QUIET][: max(1, room - 1)]
    quiet = [host for host in known if host not in told] if across >= 2 else []
    if across < 2 and len(told) < len(known) <= room:
        told = known
    lines += [_host_line(host, placed.get(host.name, []), name, width, glyphs) for host in told]
    rows = min(-(-len(quiet) // across), height - len(lines))
    if quiet and rows * across < len(quiet):
        rows = max(0, rows - 1)
    blocks = [
        [_host_line(host, placed.get(host.name, []), name, unit, glyphs) for host in quiet[block : block + rows]]
        for block in range(0, rows * across, rows or 1)
    ]
    lines += beside([(block, unit) for block in blocks], rows, ellipsis=glyphs.ellipsis)
    left = len(known) - len(told) - min(len(quiet), rows * across)
    if left:
        lines.append(more_line(left, "hosts", "3"))
    elif height > len(lines) and width >= 52:
        lines.append(strips.legend(view.components, glyphs))
    return lines


def _lost(known: tuple[HostView, ...]) -> str:
    lost = sum(host.state == "lost" for host in known)
    waiting = sum(host.state == "waiting" for host in known)
    return ", ".join(f"{count} {word}" for count, word in ((lost, "lost"), (waiting, "waiting")) if count)


def _host_line(host: HostView, components: list[ComponentView], name: int, width: int, glyphs: Glyphs) -> Line:
    mark, style = host_mark(glyphs, host.state)
    spans: list[Span] = [(mark, style), (f" {fit(clean(host.name), name, ellipsis=glyphs.ellipsis)} ", "")]
    room = width - name - 3
    if host.reason or host.state != "connected":
        told = f" {host.state}" + (f": {clean(host.reason)}" if host.reason else "")
        cells = strips.cut_row(strips.cells(host, components, glyphs), min(room // 2, 16))
        return (*spans, *cells, (told, style))
    cells = strips.cut_row(strips.cells(host, components, glyphs), room)
    used = sum(len(text) for text, _style in cells)
    cpu = f" {strips.busy_percent(components):.0f}%"
    head = " head" if host.head else ""
    rest = room - used
    return (*spans, *cells, (cpu if rest >= len(cpu) else "", "dim"),
            (head if rest >= len(cpu) + len(head) else "", "dim"))  # fmt: skip


_SCARCE = (4, 5)  #: lines in which a line saying that there are more would cost a row or the header


def components(scene: Scene, width: int, height: int) -> Lines:
    """What runs, trouble first, with a line that sums it up: above the rows, or below them where room is scarce."""
    glyphs, view = scene.glyphs, scene.view
    known = view.components
    columns = tables.component_columns(known, width, older_s=scene.older_s, told=True)
    header = tables.header(columns, width, ellipsis=glyphs.ellipsis)
    ordered = tables.sorted_components(known, "trouble")
    if height in _SCARCE:
        shown = ordered if len(ordered) <= height - 2 else ordered[: height - 3]
        note = f"{len(ordered) - len(shown)} more (2)" if len(shown) < len(ordered) else ""
        rows = [tables.component_row(component, columns, width, glyphs) for component in shown]
        below = [tables.summary(known)] if len(rows) < height - 2 else []
        return [titled(f"components {len(known)}", width, glyphs, note=note), header, *rows, *below]
    lines: Lines = [titled(f"components {len(known)}", width, glyphs), tables.summary(known)]
    if height > max(_SCARCE):
        lines.append(header)
    room = height - len(lines)
    shown = ordered if len(ordered) <= room else ordered[: max(0, room - 1)]
    lines += [tables.component_row(component, columns, width, glyphs) for component in shown]
    if len(shown) < len(ordered):
        lines.append(more_line(len(ordered) - len(shown), "components", "2"))
    return lines


def links(scene: Scene, width: int, height: int) -> Lines:
    """Links, those with something to tell first."""
    glyphs = scene.glyphs
    known = sorted(scene.view.links, key=lambda link: (link.state == "up", not link.reason))
    lines: Lines = [titled(f"links {len(known)}", width, glyphs, note=_all_traffic(scene.view.links))]
    room = height - 1
    shown = known if len(known) <= room else known[: max(0, room - 1)]
    lines += [link_line(link, glyphs) for link in shown]
    if len(shown) < len(known):
        lines.append(more_line(len(known) - len(shown), "links", "3"))
    return lines


def _all_traffic(known: tuple[LinkView, ...]) -> str:
    return f"{sum(link.mb_per_s for link in known):.1f} MB/s" if known else ""


def link_line(link: LinkView, glyphs: Glyphs) -> Line:
    """One direction: state, rate, transport, what compressing saves, and what is wrong."""
    mark, style = link_mark(glyphs, link.state)
    arrow = "->" if glyphs.plot == "ascii" else "→"
    spans: list[Span] = [(mark, style), (f" {clean(link.source)} {arrow} {clean(link.target)} ", "")]
    if link.state == "up":
        spans.append((f"{link.mb_per_s:.1f} MB/s", "bold"))
    else:
        spans.append((clean(link.state), style))
    told = [clean(link.transport)]
    if link.wan:
        told.append("wan")
    if link.saved_bytes:
        told.append(f"{size(link.saved_bytes)} saved")
    if link.joins > 1:
        told.append(f"joined {link.joins} times")
    spans.append((f" {', '.join(told)}", "dim"))
    if link.reason:
        spans.append((f": {clean(link.reason)}", style if link.state != "up" else ""))
    return tuple(spans)


def checkpoints(scene: Scene, width: int, _height: int) -> Lines:
    """One line: the newest checkpoint and how many there are, the links, the samples under way."""
    view, glyphs = scene.view, scene.glyphs
    parts: list[Line] = [checkpoint_line(scene, "none yet")]
    if view.links:
        up = sum(link.state == "up" for link in view.links)
        told = f"{up} of {len(view.links)} up"
        parts.append((("links ", "label"), (told, "warn" if up < len(view.links) else "")))
    samples = view.samples
    dropped = samples.dropped_stale + samples.dropped_other
    told = f"{samples.in_flight:,} in flight, {dropped:,} dropped"
    parts.append((("samples ", "label"), (told, "")))
    return [fitting(parts, (f"  {glyphs.dot}  ", "dim"), width)]


def checkpoint_line(scene: Scene, none: str) -> Line:
    """The newest checkpoint and how many there are, or the word for `none`; and whether the last ones failed."""
    found = scene.view.checkpoints
    told = none
    if found.last_step is not None:
        when = f", {age(found.last_age_s + scene.older_s)}" if found.last_age_s is not None else ""
        told = f"step {found.last_step:,}{when}; {found.complete} complete"
    failures = scene.glyphs.shown(clean(checkpoint_failures(found)))
    return (("checkpoint ", "label"), (told, ""), *(((f"; {failures}", "bad"),) if failures else ()))


def events(scene: Scene, width: int, height: int) -> Lines:
    """The newest events, the newest at the bottom."""
    glyphs = scene.glyphs
    known = scene.view.events[-max(1, height - 1) :]
    lines: Lines = [titled("events", width, glyphs)]
    return lines + [event_line(event, width, glyphs) for event in known]


def event_line(event: Event, width: int, glyphs: Glyphs) -> Line:
    """Time, kind and message; a kind that means trouble stands out."""
    return event_lines(event, width, glyphs, 1)[0]


def event_lines(event: Event, width: int, glyphs: Glyphs, most: int) -> Lines:
    """The same with its message over at most `most` lines."""
    kind = clean(event.kind)
    room = 22 if width >= 60 else 0
    spans: list[Span] = [(f"{event.time.astimezone():%H:%M:%S} ", "dim")]
    if room:
        spans.append((fit(kind, room, ellipsis=glyphs.ellipsis), event_style(kind)))
        spans.append((" ", ""))
    message, cells = glyphs.shown(clean(event.message)), max(1, width - 10 - room)
    if most == 1 or width_of(message) <= cells:
        return [(*spans, (cut(message, cells, glyphs.ellipsis), ""))]
    rows = fold(message, cells)
    if len(rows) > most:
        rows = [*rows[: most - 1], cut(" ".join(rows[most - 1 :]), cells, glyphs.ellipsis)]
    pad = (" " * (9 + (room + 1 if room else 0)), "")
    return [(*spans, (rows[0], "")), *((pad, (row, "")) for row in rows[1:])]


_BAD_ENDINGS = ("died", "failed", "lost", "frozen", "refused", "expired", "silent")
_WARN_ENDINGS = ("backoff", "drift", "drifting", "restarting", "late", "rolled_back")


def event_style(kind: str) -> str:
    """By the last part of the kind."""
    last = kind.rpartition(".")[2]
    return "bad" if last in _BAD_ENDINGS else "warn" if last in _WARN_ENDINGS else "label"
