"""The forkserver: imports what is heavy once, forks components from there, and is their guardian if the agent dies.

It has one thread and no state but its children. Its agent's death shows as end-of-file on the channel without a word of
dismissal before it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from runtime.components.driver import HAND_OVER
from runtime.contract.paths import RunPaths
from runtime.contract.plan import Plan
from runtime.contract.run_mark import mark_process
from runtime.control import fork_protocol as protocol
from runtime.control.orphans import wind_up
from runtime.control.process import RunOnNode, run_component, run_courier
from runtime.models.engine import engine_of
from runtime.resources import Resources


@dataclass(frozen=True, slots=True)
class Child:
    """A component process of ours; `pidfd` becomes readable when it ends."""

    component: str
    attempt: int
    pid: int
    pidfd: int


class Forkserver:
    """Serves one run."""

    def __init__(self, channel: socket.socket, run: RunOnNode, resources: Resources) -> None:
        self._channel = channel
        self._run = run
        self._resources = resources
        self._children: dict[int, Child] = {}
        self._dismissed = False
        self._lifeline = (resources.raw("lifeline:r"), resources.raw("lifeline:w"))

    def serve(self) -> None:
        """Fork and report until the agent hangs up, then wind the run up; perhaps with another agent to follow."""
        while True:
            poller = select.poll()
            poller.register(self._channel, select.POLLIN)
            for pidfd in self._children:
                poller.register(pidfd, select.POLLIN)
            for descriptor, _ in poller.poll():
                if descriptor in self._children:
                    self._reap(self._children.pop(descriptor))
                elif not self._obey():
                    children = {child.pid: child.component for child in self._children.values()}
                    wind_up(self._run, self._resources, children, dismissed=self._dismissed)
                    return

    def _obey(self) -> bool:
        message, descriptors = protocol.receive(self._channel)
        match message:
            case protocol.SpawnOrder():
                self._fork(message)
            case protocol.Descriptors(names=names):
                self._resources.take(names, descriptors)
            case protocol.Forget(names=names):
                self._resources.forget(names)
            case protocol.Dismiss():
                self._dismissed = True
            case _:
                return False
        return True

    def _fork(self, order: protocol.SpawnOrder) -> None:
        name, attempt = order.component, order.attempt
        try:
            pid = os.fork()
        except OSError as error:
            self._say(protocol.ForkFailed(component=name, attempt=attempt, reason=error.strerror or ""))
            return
        if pid == 0:
            self._become(order)
        pidfd = os.pidfd_open(pid)
        self._children[pidfd] = Child(name, attempt, pid, pidfd)
        self._say(protocol.Forked(component=name, attempt=attempt, pid=pid))

    def _become(self, order: protocol.SpawnOrder) -> None:
        """In the child: drop what is the forkserver's, run the component, leave without any cleanup of the parent's."""
        code = 70
        try:
            self._channel.close()
            for pidfd in self._children:
                os.close(pidfd)
            os.close(self._lifeline[1])
            if order.courier is not None:
                os.close(self._lifeline[0])
                run_courier(order.component, order.courier, self._resources)
            code = run_component(order.component, order.attempt, self._run, self._resources, self._lifeline[0])
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _reap(self, child: Child) -> None:
        _, status = os.waitpid(child.pid, 0)
        os.close(child.pidfd)
        code = os.waitstatus_to_exitcode(status)
        self._say(protocol.Gone(component=child.component, attempt=child.attempt, pid=child.pid, status=code))

    def _say(self, message: protocol.Message) -> None:
        """A dead agent is noticed at the next look at the channel, not here."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            protocol.send(self._channel, message)


def main(argv: list[str]) -> int:
    """`python -m runtime forkserver FD`: import, then wait for the run on the channel."""
    channel = socket.socket(fileno=int(argv[0]))
    channel.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, (HAND_OVER,))  # a child that is told early would die of it
    _import_heavy()
    message, _ = protocol.receive(channel)
    if not isinstance(message, protocol.Setup):
        return 0  # the agent has left before there was anything to do
    names: list[str] = []
    descriptors: list[int] = []
    more = True
    while more:
        part, found = protocol.receive(channel)
        if part is None:
            return 0
        assert isinstance(part, protocol.Descriptors)
        names += part.names
        descriptors += found
        more = part.more
    root = Path(message.root)
    mark_process(root.name)  # before the first fork: what it forks shows what it shows
    import_for(Plan.model_validate_json(RunPaths(root).plan.read_bytes()))
    run = RunOnNode(
        RunPaths(root), message.node, message.attempt, Path(message.resume_from) if message.resume_from else None
    )
    forkserver = Forkserver(channel, run, Resources.attach(names, descriptors))
    protocol.send(channel, protocol.Ready())
    forkserver.serve()
    return 0


def _import_heavy() -> None:
    """What every component needs, once."""
    import runtime.assembly

    del runtime.assembly


def import_for(plan: Plan) -> None:
    """torch costs over a second and 150 MB: only for networks that it computes, and then once for all components."""
    if engine_of(plan.job.algorithm.network) == "torch":
        import torch

        torch.set_num_threads(1)
    if len(plan.hosts) > 1:
        import runtime.courier.peer  # all of a courier but MPI, which cannot be shared

        del runtime.courier.peer
    gc.collect()
    gc.freeze()
