"""The course of one attempt of a run: what is heard and what the clock says become decisions, and these become deeds.

`run_machine` decides about the run as a whole, `steering` about nodes and the plan, the desk about checkpoints. This
feeds them, performs what they want, and has everything written down. It knows no socket: it is told, and it tells.
"""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from runtime.contract.messages import Ack, Checkpoint, CoordinatorMessage, Stop
from runtime.contract.operator import CheckpointRequest, OperatorRequest, Reply, ScaleRequest, StopRequest
from runtime.contract.states import TERMINAL_RUN_STATES, RunState
from runtime.control import run_state as happened
from runtime.control.checkpoint_copies import CheckpointCopies
from runtime.control.checkpoints import CheckpointDesk
from runtime.control.event_log import EventLog
from runtime.control.run_machine import newest_cause, step
from runtime.control.run_state import Effect, RunEvent
from runtime.control.scribe import Scribe
from runtime.control.steering import Steering
from runtime.control.stop_rules import rule_met
from runtime.control.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.messages import Report
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Plan
    from runtime.contract.record import RunRecord
    from runtime.contract.view import RunView
    from runtime.control.links import Link
    from runtime.control.nodes import Heard
    from runtime.control.run_state import Run, Standing

_WRITE_EVERY_S = 1.0
_TELL_UNWRITTEN_EVERY_S = 60.0  #: a disk that is full stays so for a while, and writing is tried each second
_HEAR_ALL_WITHIN_S = 1.5  #: a successor answers nobody before it has heard all nodes, or for so long
_TRAINING = (RunState.RUNNING, RunState.DEGRADED)


class RunControl:
    """Times are the coordinator's monotonic clock, in seconds."""

    def __init__(
        self,
        paths: RunPaths,
        plan: Plan,
        record: RunRecord,
        *,
        send: Callable[..., bool],
        tell: Callable[[CoordinatorMessage], None],
        now: float,
    ) -> None:
        """`send` queues a message, perhaps with a blob, for one node; `tell` for all that have greeted."""
        self._tell = tell
        self._scribe = Scribe(paths, plan, record, now=now)
        self._fold = self._scribe.fold
        self.run: Run = self._scribe.run
        self.events = EventLog(paths.events, _wall, plan.head)
        self.desk = CheckpointDesk(plan, paths, self.events, _wall, now=now)
        self.copies = CheckpointCopies(paths, self.events, send)
        self.steering = Steering(
            paths, plan, self._fold, self.events, attempt=record.attempt, kept=self._scribe.nodes, send=send,
            revised=self._revised, now=now,
        )  # fmt: skip
        self.nodes = self.steering.membership
        self._watch = Watch(plan, now=now)
        self._standings: tuple[Standing, ...] = ()
        self._written_at = -math.inf
        self._began_at = now
        fresh = self.run.state is RunState.PENDING
        self._uninformed = set() if fresh else {node.name for node in self._scribe.nodes if node.connected}
        self._unwritten_state = True
        self._told_unwritten_at = -math.inf

    @property
    def over(self) -> bool:
        """Whether the run has ended and its record is written."""
        return self.run.state in TERMINAL_RUN_STATES

    def begin(self, now: float) -> None:
        """Start the attempt, or go on with what a coordinator before this one left."""
        if self.run.state is RunState.PENDING:
            event = self.events.write("run.attempt", self._scribe.opening)
            self._feed(happened.PreflightStarted(id=event))
            self._feed(happened.PreflightPassed(id=event))
            return
        event = self.events.write("coordinator.resumed", f"a new coordinator goes on with the {self.run.state} run")
        if self.run.orphaned:
            self.desk.adopt(event, now)
        elif self._scribe.open_round is not None and (ended := self.desk.resume(self._scribe.open_round, now)):
            self._feed(ended)

    def informed(self, now: float) -> bool:
        """Whether what is shown is no older than what was: a successor first hears every node that was there."""
        if self._uninformed and now - self._began_at < _HEAR_ALL_WITHIN_S:
            return False
        self._uninformed.clear()
        return True

    def close(self) -> None:
        """Let go of files and threads."""
        self.desk.close()
        self.copies.close()
        self._scribe.close()

    # -- what is heard

    def hear(self, node: str, heard: Heard, now: float) -> None:
        """A node has spoken."""
        for event in self.steering.hear(node, heard, self.run, now):
            self._feed(event)

    def take(self, report: Report, now: float) -> Ack:
        """A node's report; what to answer."""
        self._fold.take(report, now)
        self._uninformed.discard(report.node)
        self.steering.report(report, self.run, now)
        for event in report.events:
            self.events.adopt(event, report.node)
        source = f"report-{report.node}-{report.sequence}"
        self._tell_standings(source, heard=report.node == self.steering.plan.head)
        self._judge(now)
        self._mind_exits(source)
        return self.acknowledge(report)

    def acknowledge(self, report: Report) -> Ack:
        """The answer alone, by which an agent knows that its coordinator lives."""
        return Ack(
            sequence=report.sequence,
            env_steps=self._fold.progress.env_steps,
            base_env_steps=self._fold.base.progress.env_steps,
            state=self.run.state,
            paused=self.run.paused,
        )

    def stop(self, reason: str, *, checkpoint: bool, host: str | None = None) -> None:
        """Somebody wants the run to end."""
        if not self.over:
            event = self.events.write("stop.requested", reason, host=host)
            self._feed(happened.StopRequested(id=event, reason=reason, checkpoint=checkpoint))

    def lose_agent(self) -> None:
        """The head's agent is gone: who is on other nodes has to be told by this process."""
        reason = "the agent is gone"
        event = self.events.write("agent.lost", reason)
        self._feed(happened.AgentLost(id=event, reason=reason, alone=not self.nodes.others()))

    def _tell_standings(self, source: str, *, heard: bool = False) -> None:
        """What the run's machine has to know of components, where it is new; `heard`: the head's agent has spoken."""
        standings = self._fold.standings(self.events.of_component)
        if standings != self._standings or (heard and "agent" in self.run.troubles):
            self._standings = standings
            self._feed(happened.ComponentsReported(id=source, components=standings, heard=heard))

    def _mind_exits(self, source: str) -> None:
        """Has everybody left? Who cannot be asked is not waited for, once all have been told."""
        told = self.run.components_told
        if self.over or (self.run.orphaned and not told):
            return
        absent = set(self.nodes.nodes) - set(self.nodes.connected()) if told else set()
        if self.run.orphaned:
            absent.add(self.steering.plan.head)
        if self._fold.all_gone(absent):
            self._feed(happened.AllExited(id=newest_cause(self._standings) or source))

    def _judge(self, now: float) -> None:
        """Has the run done what it was for?"""
        if self.run.state not in (RunState.STARTING, *_TRAINING):
            return
        reason = rule_met(
            self.steering.plan.job.training.stop,
            mean_100=self._fold.rewards.mean_100,
            env_steps=self._fold.progress.env_steps,
            updates=self._fold.progress.updates,
            elapsed_s=self._scribe.elapsed_s(now),
        )
        if reason is not None:
            event = self.events.write("stop.rule-met", reason)
            self._feed(happened.StopRuleMet(id=event, reason=reason))

    # -- what operators ask

    def answer(self, request: OperatorRequest) -> Reply:
        """One request of an operator."""
        match request:
            case CheckpointRequest():
                return self._answer_checkpoint()
            case StopRequest(reason=reason, checkpoint=checkpoint):
                self.stop(reason, checkpoint=checkpoint)
                return Reply(ok=True, data={"state": self.run.state, "reason": self.run.reason})
            case ScaleRequest():
                return self.steering.answer(request, self.run, time.monotonic())
        return Reply(ok=True, data=self._view(time.monotonic()).model_dump(mode="json"))

    def _answer_checkpoint(self) -> Reply:
        if self.run.state in _TRAINING and not self.run.checkpointing:
            event = self.events.write("checkpoint.asked", "the operator asked for a checkpoint")
            self._feed(happened.CheckpointWanted(id=event, reason="asked by the operator"))
        if self.desk.round is not None and not self.run.orphaned:
            return Reply(ok=True, data={"step": self.desk.round.step})
        return Reply(
            ok=False, error=f"no checkpoint can be written now: the run is {self.run.state}, {self.run.reason}"
        )

    # -- what the clock says

    def look(self, now: float) -> None:
        """Often, while the run is not over: whatever has become due."""
        for event in self.steering.look(self.run, lambda: self._view(now), now):
            self._feed(event)
        self._tell_standings(f"clock-{now:.1f}")
        self._look_at_desk(now)
        if self.run.state in _TRAINING:
            for event in self._watch.look(
                self._fold, self.run, self.events, now, links=self._links_of_those_who_are_there()
            ):
                self._feed(event)
            if self.desk.due(now):
                self._feed(happened.CheckpointWanted(id=f"clock-{now:.0f}", reason="it is time"))
        self._judge(now)
        if self.run.components_told:
            self._mind_exits(f"clock-{now:.1f}")
        if not self.over and (self._unwritten_state or now - self._written_at >= _WRITE_EVERY_S):
            self.write(now)

    def _links_of_those_who_are_there(self) -> list[Link]:
        there = set(self.nodes.connected())
        return [link for pair, link in self.nodes.links.items() if there.issuperset(pair)]

    def _look_at_desk(self, now: float) -> None:
        before, lost = self.desk.round, self.nodes.lost()
        outcome = self.desk.look(
            self._fold, lambda step: self._scribe.manifest(step, now), now=now, away=self._away(lost)
        )
        if self.run.orphaned and before is None and self.desk.round is not None:
            self._tell(Checkpoint(step=self.desk.round.step))  # what the head's guardian has begun
        if isinstance(outcome, happened.CheckpointWritten):
            self.copies.written(outcome.step, self.steering.plan, self.nodes.connected())
        if outcome is not None:
            self._feed(outcome)
        self.copies.look(lost, now)

    def _away(self, lost: dict[str, str]) -> list[str]:
        return [placement.name for placement in self.steering.plan.placements if placement.host in lost]

    def write(self, now: float) -> None:
        """Everything that is kept in files, and one more point of every curve."""
        self._written_at, self._unwritten_state = now, False
        self._scribe.write(self.run, self.nodes, self._view(now), self.desk.round, now)
        if (why := self._scribe.unwritten) is not None and now - self._told_unwritten_at > _TELL_UNWRITTEN_EVERY_S:
            self._told_unwritten_at = now
            self.events.write("state.unwritten", f"view and state of the run cannot be written: {why}")

    def _view(self, now: float) -> RunView:
        return self._scribe.view(
            self.run, self.nodes, self.desk.view(), self.events.newest, now,
            drift=self._watch.drift, advice=self.steering.advice,
        )  # fmt: skip

    def _revised(self, plan: Plan) -> None:
        """Another plan holds: a coordinator after this one must know all that goes with it."""
        self.desk.revise(plan)
        self._watch.revise(plan)
        self._scribe.revise(plan)
        self.write(time.monotonic())

    # -- decisions and their effects

    def _feed(self, event: RunEvent) -> None:
        now = time.monotonic()
        before = self.run
        self.run, effects = step(self.run, event, now=now - self._scribe.began_at)
        self._unwritten_state = self._unwritten_state or self.run != before
        for effect in effects:
            self._perform(effect, now)

    def _perform(self, effect: Effect, now: float) -> None:
        match effect:
            case happened.Publish(kind=kind, message=message, cause=cause):
                self.events.write(kind, message, cause=cause)
            case happened.RequestCheckpoint(reason=reason, cause=cause):
                away = self._away(self.nodes.lost())
                steps = self._fold.progress.env_steps
                failure = self.desk.begin(reason, cause, env_steps=steps, now=now, away=away)
                if failure is not None:
                    self._feed(failure)
                elif self.desk.round is not None:
                    self.write(now)  # a coordinator after this one must know of the round before anybody does
                    self._tell(Checkpoint(step=self.desk.round.step))
            case happened.AdoptCheckpoint(cause=cause):
                self.desk.adopt(cause, now)
            case happened.StopComponents(reason=reason):
                self._tell(Stop(reason=reason))
            case happened.WriteCompletion(state=state, reason=reason):
                self._scribe.complete(state, reason, self.desk.last)
            case _:
                raise TypeError(f"no way to perform {effect}")


def _wall() -> datetime:
    return datetime.now(UTC)
