"""What the forkserver does when its agent is gone.

On the head: one last checkpoint, then everybody leaves. The manifest is the coordinator's business (it knows the run's
counters): the guardian makes the components write their shards, sees them out, and says in `orphaned.json` that it is
done. On other nodes: everybody leaves, and a new agent begins; the run goes on without this node meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import TYPE_CHECKING

from runtime.contract.files import write_whole
from runtime.contract.plan import Plan
from runtime.contract.states import Role
from runtime.control.orphan_record import OrphanRecord
from runtime.control.second_life import become_agent
from runtime.memory.block import StatsBlock
from runtime.memory.control import Command, ControlBlock
from runtime.resources import CONTROL
from runtime.wiring import block_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.control.process import RunOnNode
    from runtime.resources import Resources

_LOOK_EVERY_S = 0.05
_HURRIED_GRACE_S = 5.0  #: where nothing is saved and somebody waits for the node


def wind_up(run: RunOnNode, resources: Resources, children: Mapping[int, str], *, dismissed: bool) -> None:
    """Returns when no child is left, or becomes the next agent. `children` are pids (our own) and component names."""
    paths = run.paths
    control = ControlBlock(resources.segment(CONTROL))
    plan = Plan.model_validate_json(paths.plan.read_bytes())
    if control.command:
        _see_out(children, grace_s=plan.job.health.stop_grace)
    elif run.node == plan.head:
        _save_and_see_out(run, plan, resources, control, children)
    else:
        control.command = Command.STOP
        _see_out(children, grace_s=min(plan.job.health.stop_grace, _HURRIED_GRACE_S))
        if not dismissed:
            become_agent(paths, time.time())


def _save_and_see_out(
    run: RunOnNode, plan: Plan, resources: Resources, control: ControlBlock, children: Mapping[int, str]
) -> None:
    paths = run.paths
    step = max(control.global_env_steps, control.checkpoint_request + 1)
    control.checkpoint_request = step
    blocks = {
        placement.name: StatsBlock(resources.segment(block_of(placement.name)))
        for placement in plan.on(run.node)
        if placement.role in (Role.LEARNER, Role.BUFFER) and resources.holds(block_of(placement.name))
    }
    whole = _wait_until(
        lambda: all(block.checkpoint_done >= step for block in blocks.values()),
        give_up=lambda: set(blocks) - set(_alive(children).values()) != set(),
        timeout_s=plan.job.health.checkpoint,
    )
    control.command = Command.STOP
    _see_out(children, grace_s=plan.job.health.stop_grace)
    reason = "its agent is gone" if whole else "its agent is gone, and not every shard could be written"
    write_whole(paths.orphaned, OrphanRecord(step=step if whole else None, reason=reason).model_dump_json())


def _wait_until(done: Callable[[], bool], *, give_up: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not done():
        if give_up() or time.monotonic() > deadline:
            return done()
        time.sleep(_LOOK_EVERY_S)
    return True


def _alive(children: Mapping[int, str]) -> dict[int, str]:
    alive = {}
    for pid, name in children.items():
        with contextlib.suppress(ChildProcessError):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                alive[pid] = name
    return alive


def _see_out(children: Mapping[int, str], *, grace_s: float) -> None:
    """Wait for all to leave; SIGKILL for those that do not."""
    deadline = time.monotonic() + grace_s
    for pid in children:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(descriptor)
