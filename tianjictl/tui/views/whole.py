"""The row under the cursor with all that is known of it, uncut: what a dialog shows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.contract.states import ComponentState
from tianjictl.runs.afterwards import is_over
from tianjictl.runs.words import age, checkpoint_failures, cores, duration, size
from tianjictl.tui import tables
from tianjictl.tui.dialogs import Whole
from tianjictl.tui.panels import over, running
from tianjictl.tui.views import lists, reading

if TYPE_CHECKING:
    from runtime.contract.view import ComponentView, Event, HostView, LinkView
    from tianjictl.runs.checkpoints import CheckpointView
    from tianjictl.tui.scene import Scene


def whole_of(scene: Scene) -> Whole | None:
    """What the cursor is on, as a dialog to read; none where it is on nothing."""
    match scene.view_name:
        case "overview":
            return _run(scene)
        case "components":
            return _chosen_component(scene)
        case "hosts":
            return _chosen_host(scene)
        case "checkpoints":
            return _chosen_checkpoint(scene)
        case "events":
            known = reading.listed_events(scene)
            return _event(known[reading.cursor_in(known, scene.browse)]) if known else None
        case "logs":
            lines = reading.listed_lines(scene)
            told = (lines[reading.cursor_in(lines, scene.browse)],) if lines else ()
            return Whole(f"a line of {scene.extra.log_of}", told) if told else None
        case "plan":  # which is wrapped, and scrolls
            return None


def _run(scene: Scene) -> Whole:
    """The sentences of the overview."""
    view = scene.view
    told = [f"{view.state}: {view.reason}", ""]
    if is_over(view):
        told += over.sentences(view)
    else:
        told += [text for text, _style in running.limit_sentences(scene)]
    if failures := checkpoint_failures(view.checkpoints):
        told += ["", f"checkpoints: {failures}"]
    if view.predicted.explanation:
        told += ["", "the plan says:", *view.predicted.explanation]
    return Whole(view.run_id, tuple(told))


def _chosen_component(scene: Scene) -> Whole | None:
    known = lists.listed_components(scene)
    if not known:
        return None
    return _component(known[lists.cursor_of([item.name for item in known], scene.browse)], scene.older_s)


def _component(found: ComponentView, older_s: float) -> Whole:
    told = [
        f"{found.role} on {found.host}, {tables.state_word(found.state)}"
        + (f": {found.reason}" if found.reason else ""),
        f"cores {cores(found.cores)}, pid {found.pid or '-'}, started {found.restarts + 1} times",
    ]
    if found.cpu_percent is not None:
        waits = f", {found.waiting_percent:.0f}% waiting for a core" if found.waiting_percent else ""
        waits += f", {found.throttled_percent:.0f}% held by a quota" if found.throttled_percent else ""
        told.append(f"{found.cpu_percent:.0f}% of a core{waits}, memory {size(found.rss_bytes)}")
    if found.heartbeat_age_s is not None:
        told.append(f"heard {age(found.heartbeat_age_s + older_s)}")
    if found.gauges and found.state is not ComponentState.EXITED:
        told += ["", *(f"{name} {value:.6g}" for name, value in found.gauges.items())]
    return Whole(found.name, tuple(told))


def _chosen_host(scene: Scene) -> Whole | None:
    """A host, or one of the links below the hosts."""
    known, links = lists.listed_hosts(scene), lists.listed_links(scene)
    if not known:
        return None
    cursor = lists.cursor_of(lists.names_of_hosts(known, links), scene.browse)
    return _host(known[cursor], scene.older_s) if cursor < len(known) else _link(links[cursor - len(known)])


def _host(found: HostView, older_s: float) -> Whole:
    told = [f"{found.state}" + (f": {found.reason}" if found.reason else ""), f"cores {cores(found.cores)}"]
    if found.heartbeat_age_s is not None:
        told.append(f"heard {age(found.heartbeat_age_s + older_s)}")
    if found.clock_offset_s is not None:
        told.append(f"its clock is {found.clock_offset_s:+.3f} s from the head's")
    return Whole(found.name, tuple(told))


def _link(found: LinkView) -> Whole:
    told = [
        f"{found.state} by {found.transport}" + (f": {found.reason}" if found.reason else ""),
        f"{found.mb_per_s:.1f} MB/s, {size(found.sent_bytes)} sent, {size(found.saved_bytes)} saved by compressing",
        f"joined {found.joins} times" + (", a wide-area link" if found.wan else ""),
    ]
    return Whole(lists.name_of_link(found), tuple([*told, f"chosen as {found.why}"] if found.why else told))


def _chosen_checkpoint(scene: Scene) -> Whole | None:
    known = lists.listed_checkpoints(scene)
    if not known:
        return None
    return _checkpoint(known[lists.cursor_of([str(item.step) for item in known], scene.browse)])


def _checkpoint(found: CheckpointView) -> Whole:
    state = "damaged" if found.problems else "complete" if found.complete else "incomplete"
    checked = ", every byte as written" if found.verified else ""
    when = f", {duration(found.age_s)} old" if found.age_s is not None else ""
    told = [
        found.path,
        *found.problems,
        "",
        f"{state}{checked}{when}" + (f", of {found.created_at}" if found.created_at else ""),
        f"shape {found.shape or '-'}, {size(found.bytes)}",
    ]
    return Whole(f"checkpoint {found.step:,}", tuple(told))


def _event(found: Event) -> Whole:
    about = [f"{what} {name}" for what, name in (("component", found.component), ("host", found.host)) if name]
    told = [found.message, "", f"{found.time.astimezone():%Y-%m-%d %H:%M:%S %z}", *about, f"event {found.id}"]
    if found.cause:
        told.append(f"led to by event {found.cause}")
    return Whole(found.kind, tuple(told))
