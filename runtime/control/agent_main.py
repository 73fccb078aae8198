"""`python -m runtime agent [--order FILE]`: the agent of a node.

Without a file it starts early, is told on standard input what to be (`AgentOrder`, one JSON line) and answers on
standard output (`AgentAnswer`); end-of-file instead of a line: leave without a trace. With a file, the answer is the
file `answer.json` in the run's folder on this node.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from runtime.control.fork_client import ForkClient

if TYPE_CHECKING:
    from runtime.contract.order import AgentOrder
    from runtime.contract.paths import RunPaths
    from runtime.control.agent import Agent
    from runtime.control.coordinator_keeper import CoordinatorKeeper
    from runtime.control.wire import AgentWire
    from runtime.resources import Resources

_SOCKET_WITHIN_S = 20.0
_CONNECTED_WITHIN_S = 15.0
_LEAVE_WITHIN_S = 30.0
_LOCK_WITHIN_S = 1.0


def main(argv: list[str]) -> int:
    """Returns 0 when the run is over, 1 if it could not be started, 2 for wrong arguments."""
    if argv and (argv[0] != "--order" or len(argv) != 2):
        sys.stderr.write("usage: python -m runtime agent [--order FILE]\n")
        return 2
    forks = ForkClient()  # first of all: its imports take longest
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    file = Path(argv[1]) if argv else None
    line = sys.stdin.readline() if file is None else file.read_text()
    if not line.strip():
        forks.hang_up(_LEAVE_WITHIN_S)
        return 0
    from runtime.contract.order import AgentOrder

    order = AgentOrder.model_validate_json(line)
    desk = _Desk(order, file)
    try:
        _serve(forks, order, desk)
    except RefusedRunError as refusal:
        forks.hang_up(_LEAVE_WITHIN_S)
        desk.answer(error=str(refusal), hint=refusal.hint)
        return 1
    return 0


class RefusedRunError(Exception):
    """The run cannot be started here; `hint` says what to do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class _Desk:
    """Where the order came from, and where the answer goes."""

    def __init__(self, order: AgentOrder, file: Path | None) -> None:
        from runtime.contract.paths import RunPaths

        self._path = RunPaths(Path(order.run)).answer if file is not None else None
        answered = self._path is not None and self._path.exists()
        #: The order has been answered before: this agent follows one that died, and the run waits for its node.
        self.again = (
            answered
            and self._path is not None
            and file is not None
            and self._path.stat().st_mtime_ns > file.stat().st_mtime_ns
        )

    def answer(self, **content: Any) -> bool:
        """Whether somebody may hear it: a launcher that was killed does not."""
        from runtime.contract.files import write_whole
        from runtime.contract.order import AgentAnswer

        text = AgentAnswer(**content).model_dump_json(exclude_none=True)
        if self._path is not None:
            write_whole(self._path, text, mode=0o600)
            return True
        try:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)  # what is still buffered must not fail again at the exit
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
            return False
        return True


def _serve(forks: ForkClient, order: AgentOrder, desk: _Desk) -> None:
    from runtime.contract.paths import RunPaths
    from runtime.contract.run_mark import mark_process

    paths = RunPaths(Path(order.run))
    mark_process(paths.run_id)
    lock = _lock(paths)
    _tidy(paths, order)
    if order.head:
        _be_head(forks, order, paths, desk)
    else:
        _be_member(forks, order, paths, desk)
    os.close(lock)


def _be_head(forks: ForkClient, order: AgentOrder, paths: RunPaths, desk: _Desk) -> None:
    """Start the coordinator, and work by the plan in the run's folder until another is assigned."""
    listen = _listen(paths, order)  # before anything heavy is imported: the coordinator has to do that, too
    from runtime.control.coordinator_keeper import CoordinatorKeeper
    from runtime.control.wire import AgentWire, ipc_endpoint, make_keys, tcp_endpoint

    make_keys(paths.keys)
    keeper = CoordinatorKeeper(paths, listen)
    from runtime.contract.plan import Plan
    from runtime.contract.record import RunRecord
    from runtime.control.agent import Agent

    plan = Plan.model_validate_json(paths.plan.read_bytes())
    record = RunRecord.model_validate_json(paths.record.read_bytes())
    order = order.model_copy(
        update={"node": plan.head, "attempt": record.attempt, "network": order.network or plan.hosts[0].network}
    )
    resources = _empty(order)
    wire = AgentWire(paths.keys, order.node, ipc_endpoint(paths))
    agent = Agent(order, paths, resources, forks, wire, keeper, instance=uuid4().hex)
    try:
        agent.adopt(plan, record.attempt)
    except OSError as error:
        raise RefusedRunError(
            f"the shared memory of the run could not be made: {error.strerror}",
            "ask for a smaller distributed.buffer_size, or free memory",
        ) from error
    _await_sockets([paths.control_socket] + [paths.wire_port] * (listen is not None), paths, keeper)
    endpoint = tcp_endpoint(listen, paths.wire_port.read_text().strip()) if listen else None
    if not desk.answer(ready=True, endpoint=endpoint):
        _end_unlaunched(paths)
    _work(agent, forks, wire, resources, paths)
    keeper.see_out(_LEAVE_WITHIN_S)


def _end_unlaunched(paths: RunPaths) -> None:
    """Nobody waits for this run, nor will take it down: it ends in order, and says why."""
    from runtime.contract.operator import StopRequest, ask

    reason = "its launcher was gone before the run was up"
    try:
        ask(paths.control_socket, StopRequest(checkpoint=False, reason=reason))
    except (OSError, ValueError) as error:
        raise RefusedRunError(f"{reason}, and its coordinator does not answer: {error}") from error


def _be_member(forks: ForkClient, order: AgentOrder, paths: RunPaths, desk: _Desk) -> None:
    """Find the coordinator, which sends the plan."""
    from runtime.control.agent import Agent
    from runtime.control.wire import AgentWire, WireError

    if order.coordinator is None:
        raise RefusedRunError("the order does not say where the coordinator is")
    _address(order.network)  # it is needed later; say now that there is none
    resources = _empty(order)
    try:
        wire = AgentWire(paths.keys, order.node, order.coordinator)
    except WireError as error:
        raise RefusedRunError(str(error)) from error
    if not desk.again:
        _await_coordinator(wire, order.coordinator)
    agent = Agent(order, paths, resources, forks, wire, None, instance=uuid4().hex)
    desk.answer(ready=True)
    _work(agent, forks, wire, resources, paths)


def _work(agent: Agent, forks: ForkClient, wire: AgentWire, resources: Resources, paths: RunPaths) -> None:
    _leave_terminal(paths)
    agent.run()
    wire.close()
    forks.hang_up(_LEAVE_WITHIN_S)
    resources.close()


def _listen(paths: RunPaths, order: AgentOrder) -> str | None:
    """The address at which agents of other nodes find the coordinator, where there may be any."""
    hosts = json.loads(paths.plan.read_bytes())["hosts"]
    if len(hosts) == 1 and order.network is None:
        return None
    return _address(order.network or hosts[0].get("network"))


def _address(network: str | None) -> str:
    from runtime.control.network import NetworkError, address_in

    try:
        return address_in(network)[0]
    except NetworkError as error:
        raise RefusedRunError(str(error), "set tianji_network of this host in the inventory") from error


def _tidy(paths: RunPaths, order: AgentOrder) -> None:
    """Make the folders, and take away what an earlier attempt left that could be taken for this one's."""
    from runtime.checkpoint.store import set_aside_newer

    for folder in (paths.logs, paths.checkpoints):
        folder.mkdir(exist_ok=True)
    for stale in (paths.orphaned, paths.control_socket, paths.wire_port):
        stale.unlink(missing_ok=True)
    if order.resume_from is not None:
        set_aside_newer(paths.checkpoints, Path(order.resume_from))


def _empty(order: AgentOrder) -> Resources:
    """The control block alone; the rest comes with the plan."""
    from runtime.checkpoint.errors import CheckpointError
    from runtime.checkpoint.manifest import env_steps_at
    from runtime.control.agent import NOTHING
    from runtime.resources import Resources

    try:
        base = env_steps_at(Path(order.resume_from) if order.resume_from is not None else None)
    except CheckpointError as error:
        raise RefusedRunError(error.message, error.hint) from error
    return Resources.create(NOTHING, shared=True, base_env_steps=base)


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


def _await_sockets(signs: list[Path], paths: RunPaths, keeper: CoordinatorKeeper) -> None:
    """`signs` are the files by which the coordinator shows that it listens."""
    deadline = time.monotonic() + _SOCKET_WITHIN_S
    while not all(sign.exists() for sign in signs):
        if keeper.gone() or time.monotonic() > deadline:
            log = paths.logs / "coordinator.log"
            words = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
            raise RefusedRunError(f"the coordinator did not come up{': ' + words[0] if words else ''}", f"see {log}")
        time.sleep(0.01)


def _await_coordinator(wire: AgentWire, endpoint: str) -> None:
    deadline = time.monotonic() + _CONNECTED_WITHIN_S
    while wire.connections == 0:
        if time.monotonic() > deadline:
            wire.close()
            raise RefusedRunError(
                f"the coordinator at {endpoint} did not let this node in within {_CONNECTED_WITHIN_S:g} s",
                "see that no firewall stands between, and tianji_network and tianji_ports of both hosts",
            )
        wire.wait(0.1)


def _leave_terminal(paths: RunPaths) -> None:
    """From here on nobody reads our output: it goes to the run's log."""
    log = os.open(paths.logs / "agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.close(null)
