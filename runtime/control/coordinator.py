"""The coordinator of a run: one thread, one loop, between agents, operators, and `run_control`, which decides.

Each turn takes what has arrived and looks at the clock. It may be killed at any time: the next one goes on from
`plan.json` and `coordinator.json`, listens where this one did, and agents tell it the rest.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from runtime.contract.messages import (
    AgentMessage,
    AskStop,
    Checkpoint,
    CoordinatorMessage,
    Hello,
    Part,
    PartTaken,
    Refused,
    Report,
    Shutdown,
    Stop,
)  # fmt: skip
from runtime.contract.version import installed_version
from runtime.control.nodes import Heard
from runtime.control.operator_server import OperatorServer
from runtime.control.run_control import RunControl
from runtime.control.steering import farewell_to_node
from runtime.control.wire import CoordinatorWire

if TYPE_CHECKING:
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Plan
    from runtime.contract.record import RunRecord

_IDLE_S = 0.25
_SEALING_S = 0.005
_FAREWELL_S = 0.3  #: how long the last word can still be asked for once the record is written
_COPIES_S = 10.0  #: how long an ended run waits for copies of its last checkpoint on other nodes


class Coordinator:
    """Lives for one attempt of a run (or what is left of it)."""

    def __init__(
        self, paths: RunPaths, plan: Plan, record: RunRecord, *, agent_pid: int, listen: str | None = None
    ) -> None:
        """`listen`: the address at which agents of other nodes may connect, none where there are none."""
        self._greeted: set[str] = set()
        self._signalled: str | None = None
        self._agent_pid = agent_pid  # our parent for as long as it lives; it may be gone already
        self._wire = CoordinatorWire(paths, listen, plan.host(plan.head).ports)
        self._control = RunControl(paths, plan, record, send=self._wire.send, tell=self._tell, now=time.monotonic())
        self._operator = OperatorServer(paths.control_socket)  # last: its being there says that the rest is, too

    def serve(self) -> int:
        """The loop; returns 0 when the run has ended and its record is written."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        self._control.begin(time.monotonic())
        while not self._control.over:
            self._turn(_SEALING_S if self._control.desk.sealing else _IDLE_S)
        self._farewell()
        return 0

    def close(self) -> None:
        """Let go of sockets, files and threads."""
        self._wire.close()
        self._operator.close()
        self._control.close()

    def _turn(self, timeout_s: float) -> None:
        informed = self._control.informed(time.monotonic())
        ready = self._wire.wait(timeout_s, self._operator.descriptors() if informed else ())
        for peer, message, blob in self._wire.receive():
            if not self._control.over:
                self._hear(peer, message, blob)
            else:
                self._hear_out(peer, message)
        self._operator.serve(ready, self._control.answer)
        if not self._control.over:
            self._look(time.monotonic())

    def _look(self, now: float) -> None:
        if self._signalled is not None:
            reason, self._signalled = self._signalled, None
            self._control.stop(reason, checkpoint=True)
        if os.getppid() != self._agent_pid and not self._control.run.orphaned:
            self._control.lose_agent()
        if not self._control.over:
            self._control.look(now)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signalled = f"the coordinator received {signal.Signals(number).name}"

    def _farewell(self) -> None:
        """The record is written: see copies out, tell agents, and answer what is still asked, for a moment."""
        begin = time.monotonic()
        self._control.write(begin)
        while self._control.copies.busy and time.monotonic() - begin < _COPIES_S:
            self._linger(_SEALING_S)
        self._tell(Shutdown(state=self._control.run.state, reason=self._control.run.reason))
        end = time.monotonic() + _FAREWELL_S
        while (left := end - time.monotonic()) > 0:
            self._linger(left)

    def _linger(self, timeout_s: float) -> None:
        ready = self._wire.wait(timeout_s, self._operator.descriptors())
        for peer, message, _ in self._wire.receive():
            self._hear_out(peer, message)
        self._control.copies.look((), time.monotonic())
        self._operator.serve(ready, self._control.answer)

    def _hear_out(self, peer: str, message: AgentMessage) -> None:
        """The run has ended, and only copies of checkpoints are under way: meanwhile agents must know that we live."""
        if isinstance(message, PartTaken):
            self._control.copies.hear(peer, message, time.monotonic())
        elif isinstance(message, Report):
            self._wire.send(peer, self._control.acknowledge(message))

    # -- what agents say

    def _hear(self, peer: str, message: AgentMessage, blob: bytes | None) -> None:
        control, now = self._control, time.monotonic()
        if control.steering.has_left(peer):
            self._wire.send(peer, farewell_to_node(control.run))  # it may have missed the first
            return
        if not control.nodes.knows(peer):
            self._refuse(peer, f"{peer} is no node of this run")
            return
        match message:
            case Hello(version=theirs) if theirs != installed_version():
                self._refuse(peer, f"the agent has version {theirs}, the coordinator {installed_version()}")
            case Hello(instance=instance, revision=revision):
                self._greeted.discard(peer)
                control.hear(peer, Heard(instance=instance, revision=revision), now)
                self._repeat(peer)
            case Report() if not control.nodes.is_former(peer, message.instance):
                control.hear(peer, _word_of(message), now)
                self._repeat(peer)
                self._wire.send(peer, control.take(message, now))
            case AskStop(reason=reason, checkpoint=checkpoint):
                control.stop(reason, checkpoint=checkpoint, host=peer)
            case Part():
                if (answer := control.desk.take(peer, message, blob)) is not None:
                    self._wire.send(peer, answer)
            case PartTaken():
                control.copies.hear(peer, message, now)

    def _refuse(self, peer: str, reason: str) -> None:
        self._control.events.write("agent.refused", reason, host=peer)
        self._wire.send(peer, Refused(reason=reason))

    def _repeat(self, peer: str) -> None:
        """To an agent that we have not spoken to yet: what it may have missed."""
        if peer in self._greeted:
            return
        self._greeted.add(peer)
        if self._control.desk.round is not None:
            self._wire.send(peer, Checkpoint(step=self._control.desk.round.step))
        if self._control.run.components_told:
            self._wire.send(peer, Stop(reason=self._control.run.reason))

    def _tell(self, message: CoordinatorMessage) -> None:
        for peer in self._greeted:
            self._wire.send(peer, message)


def _word_of(report: Report) -> Heard:
    return Heard(
        instance=report.instance, revision=report.revision, sent_at=report.sent_at, wall=time.time()
    )  # fmt: skip
