"""The coordinator of a run: hears agents and operators, decides with `run_machine`, keeps the one RunView.

One thread, one loop; each turn takes what has arrived, looks at the clock, and writes what is due. It may be killed at
any time: the next one goes on from `coordinator.json`, and agents tell it the rest.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import time
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from runtime.contract.messages import (
    Ack,
    AgentMessage,
    AskStop,
    Checkpoint,
    CoordinatorMessage,
    Hello,
    Refused,
    Report,
    Shutdown,
    Stop,
)  # fmt: skip
from runtime.contract.operator import CheckpointRequest, Reply, StopRequest
from runtime.contract.states import TERMINAL_RUN_STATES, RunState
from runtime.control import run_state as happened
from runtime.control.checkpoints import CheckpointDesk
from runtime.control.event_log import EventLog
from runtime.control.operator_server import OperatorRequest, OperatorServer
from runtime.control.run_machine import newest_cause, step
from runtime.control.run_state import Effect, RunEvent
from runtime.control.scribe import Scribe
from runtime.control.stop_rules import rule_met
from runtime.control.watch import Watch
from runtime.control.wire import CoordinatorWire

if TYPE_CHECKING:
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Plan
    from runtime.contract.record import RunRecord
    from runtime.contract.view import RunView
    from runtime.control.run_state import Run, Standing

log = logging.getLogger(__name__)

_IDLE_S = 0.25
_SEALING_S = 0.005
_WRITE_EVERY_S = 1.0
_FAREWELL_S = 0.3  #: how long the last word can still be asked for once the record is written
_CAN_CHECKPOINT = (RunState.RUNNING, RunState.DEGRADED)


class Coordinator:
    """Lives for one attempt of a run (or what is left of it)."""

    def __init__(self, paths: RunPaths, plan: Plan, record: RunRecord, *, agent_pid: int) -> None:
        now = time.monotonic()
        self._plan = plan
        self._scribe = Scribe(paths, plan, record, now=now)
        self._run: Run = self._scribe.run
        self._fold = self._scribe.fold
        self._events = EventLog(paths.events, _wall)
        self._desk = CheckpointDesk(plan, paths, self._events, _wall, now=now)
        self._watch = Watch(plan, now=now)
        self._nodes = {host.name for host in plan.hosts}
        self._greeted: set[str] = set()
        self._standings: tuple[Standing, ...] = ()
        self._written_at = -math.inf
        self._unwritten_state = True
        self._signalled: str | None = None
        self._agent_pid = agent_pid  # our parent for as long as it lives; it may be gone already
        self._operator = OperatorServer(paths.control_socket)
        self._wire = CoordinatorWire(paths)

    def serve(self) -> int:
        """The loop; returns 0 when the run has ended and its record is written."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        self._begin()
        while self._run.state not in TERMINAL_RUN_STATES:
            self._turn(_SEALING_S if self._desk.sealing else _IDLE_S)
        self._farewell()
        return 0

    def close(self) -> None:
        """Let go of sockets, files and the thread."""
        self._wire.close()
        self._operator.close()
        self._desk.close()
        self._scribe.close()

    def _begin(self) -> None:
        now = time.monotonic()
        if self._run.state is RunState.PENDING:
            event = self._events.write("run.attempt", self._scribe.opening)
            self._feed(happened.PreflightStarted(id=event))
            self._feed(happened.PreflightPassed(id=event))
            return
        event = self._events.write("coordinator.resumed", f"a new coordinator goes on with the {self._run.state} run")
        if self._run.orphaned:
            self._desk.adopt(event, now)
        elif self._scribe.open_round is not None and (ended := self._desk.resume(self._scribe.open_round, now)):
            self._feed(ended)

    def _turn(self, timeout_s: float) -> None:
        ready = self._wire.wait(timeout_s, self._operator.descriptors())
        for peer, message, _ in self._wire.receive():
            if self._run.state not in TERMINAL_RUN_STATES:
                self._hear(peer, message)
        self._operator.serve(ready, self._answer)
        self._look(time.monotonic())

    def _farewell(self) -> None:
        """The record is written: tell agents, and answer what is still asked, for a moment."""
        self._write(time.monotonic())
        self._tell(Shutdown(state=self._run.state, reason=self._run.reason))
        end = time.monotonic() + _FAREWELL_S
        while (left := end - time.monotonic()) > 0:
            ready = self._wire.wait(left, self._operator.descriptors())
            self._wire.receive()
            self._operator.serve(ready, self._answer)

    # -- what agents say

    def _hear(self, peer: str, message: AgentMessage) -> None:
        if peer not in self._nodes:
            self._refuse(peer, f"{peer} is no node of this run")
            return
        match message:
            case Hello(version=theirs) if theirs != version("tianjictl"):
                self._refuse(peer, f"the agent has version {theirs}, the coordinator {version('tianjictl')}")
            case Hello():
                self._greeted.discard(peer)
                self._repeat(peer)
            case Report():
                self._repeat(peer)
                self._take(message)
            case AskStop(reason=reason, checkpoint=checkpoint):
                event = self._events.write("stop.requested", reason, host=peer)
                self._feed_stop(event, reason, checkpoint=checkpoint)

    def _refuse(self, peer: str, reason: str) -> None:
        self._events.write("agent.refused", reason, host=peer)
        self._wire.send(peer, Refused(reason=reason))

    def _repeat(self, peer: str) -> None:
        """To an agent that we have not spoken to yet: what it may have missed."""
        if peer in self._greeted:
            return
        self._greeted.add(peer)
        if self._desk.round is not None and not self._run.orphaned:
            self._wire.send(peer, Checkpoint(step=self._desk.round.step))
        if self._run.components_told:
            self._wire.send(peer, Stop(reason=self._run.reason))

    def _tell(self, message: CoordinatorMessage) -> None:
        for peer in self._greeted:
            self._wire.send(peer, message)

    def _take(self, report: Report) -> None:
        now = time.monotonic()
        self._fold.take(report, now)
        for event in report.events:
            self._events.adopt(event, report.node)
        source = f"report-{report.node}-{report.sequence}"
        standings = self._fold.standings(self._events.of_component)
        if standings != self._standings or "agent" in self._run.troubles:
            self._standings = standings
            self._feed(happened.ComponentsReported(id=source, components=standings))
        self._judge(now)
        if self._run.state not in TERMINAL_RUN_STATES and self._fold.all_gone():
            self._feed(happened.AllExited(id=newest_cause(standings) or source))
        self._wire.send(
            report.node,
            Ack(
                sequence=report.sequence,
                env_steps=self._fold.progress.env_steps,
                base_env_steps=self._fold.base.progress.env_steps,
                state=self._run.state,
            ),
        )

    def _judge(self, now: float) -> None:
        """Has the run done what it was for?"""
        if self._run.state not in (RunState.STARTING, *_CAN_CHECKPOINT):
            return
        reason = rule_met(
            self._plan.job.training.stop,
            mean_100=self._fold.rewards.mean_100,
            env_steps=self._fold.progress.env_steps,
            updates=self._fold.progress.updates,
            elapsed_s=self._scribe.elapsed_s(now),
        )
        if reason is not None:
            event = self._events.write("stop.rule-met", reason)
            self._feed(happened.StopRuleMet(id=event, reason=reason))

    # -- what operators ask

    def _answer(self, request: OperatorRequest) -> Reply:
        match request:
            case CheckpointRequest():
                return self._answer_checkpoint()
            case StopRequest(reason=reason, checkpoint=checkpoint):
                if self._run.state not in TERMINAL_RUN_STATES:
                    event = self._events.write("stop.requested", reason)
                    self._feed_stop(event, reason, checkpoint=checkpoint)
                return Reply(ok=True, data={"state": self._run.state, "reason": self._run.reason})
        return Reply(ok=True, data=self._view(time.monotonic()).model_dump(mode="json"))

    def _answer_checkpoint(self) -> Reply:
        if self._run.state in _CAN_CHECKPOINT and not self._run.checkpointing:
            event = self._events.write("checkpoint.asked", "the operator asked for a checkpoint")
            self._feed(happened.CheckpointWanted(id=event, reason="asked by the operator"))
        if self._desk.round is not None and not self._run.orphaned:
            return Reply(ok=True, data={"step": self._desk.round.step})
        return Reply(
            ok=False, error=f"no checkpoint can be written now: the run is {self._run.state}, {self._run.reason}"
        )

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signalled = f"the coordinator received {signal.Signals(number).name}"

    # -- what the clock says

    def _look(self, now: float) -> None:
        if self._run.state in TERMINAL_RUN_STATES:
            return
        if self._signalled is not None:
            reason, self._signalled = self._signalled, None
            self._feed_stop(self._events.write("stop.requested", reason), reason, checkpoint=True)
        if os.getppid() != self._agent_pid and not self._run.orphaned:
            reason = "the agent is gone"
            self._feed(happened.AgentLost(id=self._events.write("agent.lost", reason), reason=reason))
        outcome = self._desk.look(self._fold, lambda step: self._scribe.manifest(step, now), now=now)
        if outcome is not None:
            self._feed(outcome)
        if self._run.state in _CAN_CHECKPOINT:
            for event in self._watch.look(self._fold, self._run, self._events, now):
                self._feed(event)
            if self._desk.due(now):
                self._feed(happened.CheckpointWanted(id=f"clock-{now:.0f}", reason="it is time"))
        self._judge(now)
        if self._run.state not in TERMINAL_RUN_STATES and (self._unwritten_state or self._due(now)):
            self._write(now)

    def _due(self, now: float) -> bool:
        return now - self._written_at >= _WRITE_EVERY_S

    def _write(self, now: float) -> None:
        """Everything that is kept in files, and one more point of every curve."""
        self._written_at, self._unwritten_state = now, False
        self._scribe.write(self._run, self._view(now), self._desk.round, now)

    def _view(self, now: float) -> RunView:
        return self._scribe.view(self._run, self._desk.view(), self._events.newest, now)

    # -- decisions and their effects

    def _feed_stop(self, event: str, reason: str, *, checkpoint: bool) -> None:
        if self._run.state not in TERMINAL_RUN_STATES:
            self._feed(happened.StopRequested(id=event, reason=reason, checkpoint=checkpoint))

    def _feed(self, event: RunEvent) -> None:
        now = time.monotonic()
        before = self._run
        self._run, effects = step(self._run, event, now=now - self._scribe.began_at)
        self._unwritten_state = self._unwritten_state or self._run != before
        for effect in effects:
            self._perform(effect, now)

    def _perform(self, effect: Effect, now: float) -> None:
        match effect:
            case happened.Publish(kind=kind, message=message, cause=cause):
                self._events.write(kind, message, cause=cause)
            case happened.RequestCheckpoint(reason=reason, cause=cause):
                failure = self._desk.begin(reason, cause, env_steps=self._fold.progress.env_steps, now=now)
                if failure is not None:
                    self._feed(failure)
                elif self._desk.round is not None:
                    self._write(now)  # a coordinator after this one must know of the round before anybody does
                    self._tell(Checkpoint(step=self._desk.round.step))
            case happened.AdoptCheckpoint(cause=cause):
                self._desk.adopt(cause, now)
            case happened.StopComponents(reason=reason):
                self._tell(Stop(reason=reason))
            case happened.WriteCompletion(state=state, reason=reason):
                self._scribe.complete(state, reason, self._desk.last)
            case _:
                raise TypeError(f"no way to perform {effect}")


def _wall() -> datetime:
    return datetime.now(UTC)
