"""The one screen on a run, made from a Picture: the same for `status`, its live form and an attached launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from runtime.contract.states import ComponentState, RunState
from tianjictl.cli.output import safe, table
from tianjictl.runs.afterwards import average_words, averages, is_over, way_on
from tianjictl.runs.words import age, checkpoint_failures, cores, duration, milliseconds, number, rate, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from runtime.contract.view import RunView
    from tianjictl.runs.client import Picture

STATE_STYLE = {
    RunState.RUNNING: "bold green",
    RunState.COMPLETED: "bold green",
    RunState.DEGRADED: "bold yellow",
    RunState.STOPPING: "bold yellow",
    RunState.STOPPED: "bold yellow",
    RunState.FAILED: "bold red",
    RunState.LOST: "bold red",
}
_COMPONENT_STYLE = {
    ComponentState.RUNNING: "green",
    ComponentState.FROZEN: "red",
    ComponentState.FAILED: "red",
    ComponentState.BACKOFF: "yellow",
}
RECENT_EVENTS = 8
_ANY_WIDTH = 1 << 30
_MOST_LINKS = 6  #: that are shown one by one whatever there is to say of them
_NOTHING_TO_TELL = "working"  #: the reason of a component that simply runs


def fitting(picture: Picture, console: Console, keys: str) -> list[RenderableType]:
    """The screen with as many events as the terminal has room for; the keys stand where they are always seen."""
    for events in range(RECENT_EVENTS, -1, -1):
        parts = list(screen(picture, events=events, keys=keys, width=console.width))
        if len(console.render_lines(Group(*parts), pad=False)) < console.height:
            return parts
    return parts


def screen(
    picture: Picture, *, events: int = RECENT_EVENTS, keys: str = "", width: int = _ANY_WIDTH
) -> Iterator[RenderableType]:
    """The parts of the screen from top to bottom; what does not fit `width` is left out of the table."""
    view = picture.view
    yield headline(view)
    if keys:
        yield Text(safe(keys), style="dim")
    if picture.stale:
        why = picture.problem or "the coordinator does not answer"
        yield Text(safe(f"STALE: this is {duration(picture.age_s)} old; {why}"), style="bold red")
    yield Text()
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    for label, text in _facts(picture):
        facts.add_row(label, Text(safe(text)))
    yield facts
    if view.components:
        yield Text()
        yield _components(view, width)
    if view.events and events:
        yield Text()
        for event in view.events[-events:]:
            yield Text(safe(f"{event.time.astimezone():%H:%M:%S}  {event.kind:<22} {event.message}"))


def headline(view: RunView) -> Text:
    """`run-id  running: every component is there`."""
    text = Text(safe(f"{view.run_id}  "), style="bold")
    text.append(safe(view.state), style=STATE_STYLE.get(view.state, "bold"))
    return text.append(safe(f": {view.reason}"), style="not bold")


def progress_line(view: RunView) -> str:
    """The state of the training in one line."""
    mean = view.reward.mean_100 if view.reward.mean_100 is not None else view.reward.mean
    if is_over(view):
        mean_rate = averages(view)
        pace = "" if mean_rate is None else f" ({rate(mean_rate[0])}/s on average)"
        now = [view.shape.wanted]
    else:
        pace = f" ({rate(view.rates.env_steps_per_s)}/s)"
        now = [f"{view.shape.present} of {view.shape.wanted}", f"lag {view.freshness.version_lag.mean:.1f}"]
    parts = [
        f"{view.state} {duration(view.elapsed_s)}",
        f"return {number(mean)}",
        f"{view.progress.env_steps:,} steps{pace}",
        f"{view.progress.updates:,} updates",
    ]
    return ", ".join([*parts, *now])


def result_line(view: RunView) -> str:
    """What came of the run, in one line and in the past tense."""
    mean = view.reward.mean_100 if view.reward.mean_100 is not None else view.reward.mean
    return (
        f"{view.state} {view.name} in {duration(view.elapsed_s)}: mean return {number(mean)} "
        f"over the last {min(100, view.reward.episodes)} episodes, {view.progress.env_steps:,} env steps, "
        f"{view.progress.updates:,} updates"
    )


def _facts(picture: Picture) -> Iterator[tuple[str, str]]:
    """Of a run that is over nothing is told as if it were so now."""
    view, over = picture.view, picture.ended
    shape = view.shape.wanted if over else f"{view.shape.present} present, {view.shape.wanted} wanted"
    yield "shape", f"{shape}; attempt {view.attempt}; {duration(view.elapsed_s)}"
    yield "return", _return(view)
    done = view.progress
    yield "progress", f"{done.env_steps:,} env steps, {done.updates:,} updates, version {done.version:,}"
    yield "rates", average_words(view) if over else _rates(view)
    fresh, lag = view.freshness, view.freshness.version_lag
    yield (
        "freshness",
        f"P {fresh.pool_ratio:.3g}"
        if over
        else f"P {fresh.pool_ratio:.3g}, flow {fresh.flow_ratio:.2f}, "
        f"lag mean {lag.mean:.1f} p50 {lag.p50} p95 {lag.p95} max {lag.max}, stale {fresh.staleness_ratio:.1%}",
    )
    ledger = view.samples
    yield (
        "samples",
        f"{ledger.produced:,} produced = {ledger.consumed:,} consumed + {ledger.dropped_stale:,} stale "
        f"+ {ledger.dropped_other:,} dropped + {ledger.in_flight:,} in flight",
    )
    if not over:
        yield "bottleneck", _bottleneck(view)
    if view.drift.drifting:
        yield "drift", f"{view.drift.ratio or 0.0:.0%} of what was predicted: {view.drift.reason}"
    yield "checkpoint", _checkpoint(picture)
    yield from _hosts(picture)
    if not over:
        yield from _links(view)
    if over and (command := way_on(view)) is not None:
        yield "go on", command


def _return(view: RunView) -> str:
    reward = view.reward
    shown = f"mean of 100 episodes {number(reward.mean_100)}, best {number(reward.best_mean_100)}"
    if reward.mean_100 is None and reward.mean is not None:
        shown = f"mean so far {number(reward.mean)}"
    if reward.evaluation_mean is not None:
        shown += f"; evaluator {number(reward.evaluation_mean)} at version {reward.evaluation_version}"
    return f"{shown}; {reward.episodes:,} episodes"


def _hosts(picture: Picture) -> Iterator[tuple[str, str]]:
    for host in picture.view.hosts:
        heard = f", heard {age(host.heartbeat_age_s + _older(picture))}" if host.heartbeat_age_s is not None else ""
        offset = host.clock_offset_s
        clock = (
            f", its clock {abs(offset):.1f} s {'ahead' if offset > 0 else 'behind'}"
            if offset and abs(offset) > 1
            else ""
        )
        where = f" on CPUs {cores(host.cores)}" if host.cores else ""
        head = " (head)" if host.head and len(picture.view.hosts) > 1 else ""
        why = f": {host.reason}" if host.reason else ""
        yield "host", f"{host.name}{head} {host.state}{where}{heard}{clock}{why}"


def _links(view: RunView) -> Iterator[tuple[str, str]]:
    """Each direction in a line; of many, only those with something to tell, and the others together."""
    told = [link for link in view.links if link.state != "up" or link.reason]
    up = [link for link in view.links if link not in told]
    if len(view.links) <= _MOST_LINKS:
        told, up = list(view.links), []
    for link in told:
        wan = ", wan" if link.wan else ""
        saved = f", {size(link.saved_bytes)} saved" if link.saved_bytes else ""
        again = f", joined {link.joins} times" if link.joins > 1 else ""
        why = f": {link.reason}" if link.reason else ""
        how = f"{link.transport} {link.mb_per_s:.1f} MB/s" if link.state == "up" else link.transport
        yield "link", f"{link.source} → {link.target} {link.state}, {how}{wan}{saved}{again}{why}"
    if up:
        by = ", ".join(sorted({link.transport for link in up}))
        yield "links", f"{len(up)} more are up by {by}, {sum(link.mb_per_s for link in up):.1f} MB/s in all"


def _rates(view: RunView) -> str:
    parts = []
    for measured, predicted, unit in (
        (view.rates.env_steps_per_s, view.predicted.env_steps_per_s, "env steps/s"),
        (view.rates.samples_per_s, view.predicted.samples_per_s, "samples/s"),
    ):
        share = f" ({rate(predicted)} predicted, {measured / predicted:.0%})" if predicted else ""
        parts.append(f"{rate(measured)} {unit}{share}")
    return ", ".join([*parts, f"{rate(view.rates.updates_per_s)} updates/s"])


def _bottleneck(view: RunView) -> str:
    found = view.bottleneck
    if found.advice:
        return f"{found.side}: {found.advice}"
    if found.t_sp_s is None or found.t_rv_s is None:
        return found.side
    times = f"T_sp {milliseconds(found.t_sp_s)}, T_rv {milliseconds(found.t_rv_s)}"
    return f"{found.side}: {times} for each of {found.n_actors} actors"


def _checkpoint(picture: Picture) -> str:
    found = picture.view.checkpoints
    failures = checkpoint_failures(found)
    if found.last_step is None:
        return "; ".join(filter(None, ("none yet", failures)))
    when = f", {age(found.last_age_s + _older(picture))}" if found.last_age_s is not None else ""
    return f"step {found.last_step:,}{when}; {found.complete} complete" + (f"; {failures}" if failures else "")


def _older(picture: Picture) -> float:
    """What to add to ages that were true when the view was made."""
    return 0.0 if picture.live else picture.age_s


#: What a narrow terminal does without, the first to go first.
_DISPENSABLE = ("host", "beat", "memory", "cores", "restarts", "pid", "cpu")
_GAP = 2  #: blanks between columns


def _components(view: RunView, width: int) -> Table:
    columns: dict[str, list[object]] = {
        "component": [component.name for component in view.components],
        "state": [Text(safe(c.state), style=_COMPONENT_STYLE.get(c.state, "")) for c in view.components],
        "host": [component.host for component in view.components],
        "pid": [component.pid or "-" for component in view.components],
        "cores": [cores(component.cores) for component in view.components],
        "cpu": ["-" if c.cpu_percent is None else f"{c.cpu_percent:.0f}%" for c in view.components],
        "memory": [size(component.rss_bytes) for component in view.components],
        "restarts": [component.restarts for component in view.components],
        "beat": ["-" if c.heartbeat_age_s is None else f"{max(0.0, c.heartbeat_age_s):.1f} s" for c in view.components],
    }
    needed = {header: _GAP + max(len(str(cell)) for cell in (header, *cells)) for header, cells in columns.items()}
    for header in _DISPENSABLE:
        if sum(needed[kept] for kept in columns) <= width:
            break
        del columns[header]
    reasons = [component.reason for component in view.components]
    if not set(reasons) <= {"", _NOTHING_TO_TELL}:
        columns["reason"] = list(reasons)
    left = ("component", "state", "host", "cores", "reason")
    right = [index for index, header in enumerate(columns) if header not in left]
    return table(list(columns), list(zip(*columns.values(), strict=True)), right=right)
