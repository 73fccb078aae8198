"""A run over the hosts of an inventory: reached, checked, planned, staged and started; or nothing of it is left."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runtime.contract.files import write_whole
from runtime.contract.states import TERMINAL_RUN_STATES, RunState
from tianjictl.errors import Interrupted, TianjiError
from tianjictl.launching.fleet import Fleet, of_all
from tianjictl.launching.folder import bytes_needed, new_run
from tianjictl.launching.host_check import check_room, env_modules
from tianjictl.launching.nodes import (
    Start,
    check_all,
    forget,
    record_of,
    stage_all,
    start_head,
    start_others,
    take_down,
)
from tianjictl.launching.start import UP_WITHIN_S, wait_until_up
from tianjictl.launching.stop_report import note_the_end
from tianjictl.launching.trackers import refuse_head_without_trackers
from tianjictl.runs import access
from tianjictl.runs.registry import Run, open_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runtime.contract.plan import Plan
    from runtime.contract.record import NodeRecord
    from tianjictl.hosts.types import Inventory
    from tianjictl.launching.host_check import HostCheck
    from tianjictl.remote.base import Connection

_SPARE_BYTES = 64 << 20  #: logs and the like, on a node that holds no checkpoint


def launch_over(
    inventory: Inventory,
    env_id: str,
    make_plan: Callable[[Mapping[str, Connection]], Plan],
    *,
    name: str,
    argv: Sequence[str],
    version: str,
    progress: Callable[[str], None],
) -> tuple[Run, Plan]:
    """Start a run over the hosts of `inventory` and wait until every component has reported.

    On any failure, Ctrl-C included, everything that was started is taken down again on every node, and the error says
    what was left where. `progress` hears one line for each host and phase.
    """
    with Fleet({host.name: host for host in inventory.hosts}) as fleet:
        checks = ready_hosts(fleet, env_id, progress)
        plan = make_plan(fleet.connections)
        refuse_full_disks(fleet, plan, checks)
        refuse_head_without_trackers(plan.job, plan.head, checks[plan.head].python, fleet.connections[plan.head])
        with new_run(plan, name=name, argv=argv, version=version) as made:
            head = plan.head
            nodes = [
                record_of(fleet.hosts[host.name], checks[host.name], made, head=host.name == head)
                for host in plan.hosts
            ]
            run = note_nodes(made, nodes, head)
            progress(f"starting {run.run_id} as {plan.shape} on {len(nodes)} nodes, head {head}")
            return bring_up(fleet, run, plan, checks, version=version, progress=progress), plan


def ready_hosts(fleet: Fleet, env_id: str, progress: Callable[[str], None]) -> dict[str, HostCheck]:
    """Reach and check every host; one error names all that cannot take part."""
    progress(f"reaching {', '.join(fleet.hosts)}")
    failures = fleet.reach(progress=progress)
    checks, unfit = check_all(fleet, list(fleet.connections), env_modules(env_id), progress)
    if failures or unfit:
        raise of_all(failures | unfit)
    return checks


def refuse_full_disks(fleet: Fleet, plan: Plan, checks: Mapping[str, HostCheck]) -> None:
    """DoctorFailed where a node has no room for what it will hold; all such nodes are named."""
    problems: dict[str, TianjiError] = {}
    homes = {plan.home(group) for group in plan.groups} | {plan.head}
    for host in plan.hosts:
        try:
            check_room(fleet.hosts[host.name], checks[host.name], needed_at(plan, host.name in homes))
        except TianjiError as error:
            problems[host.name] = error
    if problems:
        raise of_all(problems)


def needed_at(plan: Plan, holds_checkpoints: bool) -> int:
    """Bytes that a node may need on its disk."""
    return bytes_needed(plan) if holds_checkpoints else _SPARE_BYTES


def bring_up(
    fleet: Fleet,
    run: Run,
    plan: Plan,
    checks: dict[str, HostCheck],
    *,
    version: str,
    resume_from: Mapping[str, str] | None = None,
    progress: Callable[[str], None],
) -> Run:
    """Stage, start the head, then the others, and wait until every component has reported; or take all of it down."""
    head = run.head
    assert head is not None
    try:
        stage_all(fleet, run.nodes, checks, progress)
        start = Start.of(run, plan, version, resume_from)
        endpoint = start_head(fleet, head, start, _files_of(run), progress)
        access.lend(run, head, fleet.connections[head.name])
        start_others(fleet, head, [node for node in run.nodes if node != head], start, endpoint, progress)
        view = wait_until_up(run, lambda: False, progress=progress, deadline=time.monotonic() + UP_WITHIN_S)
        if view.state in TERMINAL_RUN_STATES:  # so short a run that some agents have come too late for it
            take_down(fleet, run.run_id, run.nodes, progress)
        return note_nodes(run, [node.model_copy(update={"started": True}) for node in run.nodes], plan.head, endpoint)
    except BaseException as error:
        with deaf_to_ctrl_c():  # everything below has a deadline, and half of it would be worse than none
            _undo(fleet, run, error, progress)
        raise


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """Ctrl-C does nothing inside; what is done there is short."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _undo(fleet: Fleet, run: Run, error: BaseException, progress: Callable[[str], None]) -> None:
    """Take down what was started everywhere, note how it ended, and have the error say what is left."""
    progress("taking down what was started")
    interrupted = isinstance(error, Interrupted) or not isinstance(error, Exception)
    access.close_all()
    left = take_down(fleet, run.run_id, run.nodes, progress)
    for line in forget(fleet, run, run.nodes):
        progress(line)
    if interrupted:
        note_the_end(run, RunState.STOPPED, "interrupted while it was being started", replace=True)
        told = f"interrupted; what had been started of {run.run_id} is taken down again"
        raise Interrupted(told, details=tuple(left)) from None
    why = error.message if isinstance(error, TianjiError) else f"{type(error).__name__}: {error}"
    note_the_end(run, RunState.FAILED, f"could not be started: {why.partition(chr(10))[0]}", replace=True)
    if isinstance(error, TianjiError):
        error.details = (*error.details, *left)


def _files_of(run: Run) -> dict[str, bytes]:
    """What the head finds in its folder, where that is not the operator's own."""
    head = run.head
    assert head is not None
    assert run.record is not None
    if head.folder == str(run.paths.root):
        return {}
    record = run.record.model_copy(update={"nodes": (), "endpoint": None})
    return {
        run.paths.plan.name: run.paths.plan.read_bytes(),
        run.paths.job.name: run.paths.job.read_bytes(),
        run.paths.record.name: record.model_dump_json(indent=2).encode(),
    }


def note_nodes(run: Run, nodes: Sequence[NodeRecord], head: str, endpoint: str | None = None) -> Run:
    """Write down which nodes the run has, and where its coordinator listens; the run as it is on disk now."""
    assert run.record is not None
    changes = {"nodes": tuple(nodes), "head": head, "endpoint": endpoint}
    write_whole(run.paths.record, run.record.model_copy(update=changes).model_dump_json(indent=2) + "\n")
    return open_run(run.paths.root)
