"""`python -m runtime agent`: starts early, is told on standard input what to run, answers on standard output.

In: one JSON line `{"run": "/run/folder", "resume_from": null | "/checkpoint"}`. Out: `{"ready": true}` once the
coordinator's socket is there, or `{"error": …, "hint": …}`. End-of-file instead of a line: leave without a trace.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.control.fork_client import ForkClient

if TYPE_CHECKING:
    from runtime.contract.paths import RunPaths
    from runtime.control.coordinator_keeper import CoordinatorKeeper
    from runtime.resources import Resources
    from runtime.wiring import Wiring

_SOCKET_WITHIN_S = 20.0
_LEAVE_WITHIN_S = 30.0
_LOCK_WITHIN_S = 1.0


def main(argv: list[str]) -> int:
    """Returns 0 when the run is over, 1 if it could not be started."""
    del argv
    forks = ForkClient()  # first of all: its imports take longest
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = sys.stdin.readline()
    if not line.strip():
        forks.hang_up(_LEAVE_WITHIN_S)
        return 0
    order = json.loads(line)
    resume_from = Path(order["resume_from"]) if order.get("resume_from") else None
    try:
        _serve(forks, Path(order["run"]), resume_from)
    except RefusedRunError as refusal:
        forks.hang_up(_LEAVE_WITHIN_S)
        _answer({"error": str(refusal), "hint": refusal.hint})
        return 1
    return 0


class RefusedRunError(Exception):
    """The run cannot be started here; `hint` says what to do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def _answer(content: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def _serve(forks: ForkClient, root: Path, resume_from: Path | None) -> None:
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Plan
    from runtime.contract.record import RunRecord
    from runtime.contract.run_mark import mark_process
    from runtime.control.agent import Agent
    from runtime.control.coordinator_keeper import CoordinatorKeeper
    from runtime.control.wire import AgentWire, ipc_endpoint, make_keys
    from runtime.wiring import wire

    paths = RunPaths(root)
    mark_process(paths.run_id)
    lock = _lock(paths)
    _tidy(paths, resume_from)
    make_keys(paths.keys)
    keeper = CoordinatorKeeper(paths)
    plan = Plan.model_validate_json(paths.plan.read_bytes())
    record = RunRecord.model_validate_json(paths.record.read_bytes())
    node = plan.hosts[0].name
    wiring = wire(plan, node)
    resources = _allocate(wiring, resume_from)
    forks.set_up(root, node, record.attempt, resume_from, resources)
    agent_wire = AgentWire(paths.keys, node, ipc_endpoint(paths))
    _await_socket(paths, keeper)
    _answer({"ready": True})
    _leave_terminal(paths)
    agent = Agent(plan, paths, wiring, resources, forks, agent_wire, keeper, node=node, version=version("tianjictl"))
    agent.run()
    agent_wire.close()
    forks.hang_up(_LEAVE_WITHIN_S)
    keeper.see_out(_LEAVE_WITHIN_S)
    resources.close()
    os.close(lock)


def _tidy(paths: RunPaths, resume_from: Path | None) -> None:
    """Make the folders, and take away what an earlier attempt left that could be taken for this one's."""
    from runtime.checkpoint.store import set_aside_newer

    for folder in (paths.logs, paths.checkpoints):
        folder.mkdir(exist_ok=True)
    for stale in (paths.orphaned, paths.control_socket, paths.wire_port):
        stale.unlink(missing_ok=True)
    if resume_from is not None:
        set_aside_newer(paths.checkpoints, resume_from)


def _allocate(wiring: Wiring, resume_from: Path | None) -> Resources:
    """All shared memory of the run."""
    from runtime.checkpoint.errors import CheckpointError
    from runtime.checkpoint.manifest import env_steps_at
    from runtime.resources import Resources

    try:
        return Resources.create(wiring, shared=True, base_env_steps=env_steps_at(resume_from))
    except CheckpointError as error:
        raise RefusedRunError(error.message, error.hint) from error
    except OSError as error:
        raise RefusedRunError(
            f"the shared memory of {sum(wiring.segments().values()) >> 20} MiB could not be made: {error.strerror}",
            "ask for a smaller distributed.buffer_size, or free memory",
        ) from error


def _lock(paths: RunPaths) -> int:
    """Hold the run; a second agent of the same run is refused."""
    descriptor = os.open(paths.agent_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _LOCK_WITHIN_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise RefusedRunError(f"run {paths.run_id} already has an agent", "see: tianjictl status") from None
            time.sleep(0.02)  # somebody who only looks whether the run is alive holds it for a moment
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _await_socket(paths: RunPaths, keeper: CoordinatorKeeper) -> None:
    deadline = time.monotonic() + _SOCKET_WITHIN_S
    while not paths.control_socket.exists():
        if keeper.gone() or time.monotonic() > deadline:
            log = paths.logs / "coordinator.log"
            words = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
            raise RefusedRunError(f"the coordinator did not come up{': ' + words[0] if words else ''}", f"see {log}")
        time.sleep(0.01)


def _leave_terminal(paths: RunPaths) -> None:
    """From here on nobody reads our output: it goes to the run's log."""
    log = os.open(paths.logs / "agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.close(null)
