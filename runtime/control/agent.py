"""The agent of a node: starts, watches and restarts its components, and reports to the coordinator.

The shell around `component_machine`: it reads blocks and messages, feeds events, performs effects. No torch, no MPI.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from runtime.components.driver import ExitReport
from runtime.contract.files import append_line
from runtime.contract.messages import Ack, AskStop, Checkpoint, Hello, Refused, Report, Shutdown, Stop
from runtime.contract.states import PHASES, ComponentState
from runtime.contract.view import Event
from runtime.control import fork_protocol as fork
from runtime.control.component_life import (
    Beat,
    Exited,
    Kill,
    Life,
    Log,
    Spawn,
    Spawned,
    SpawnFailed,
    Start,
    StopRequested,
    Terminate,
    Tick,
)
from runtime.control.component_machine import RECEIVER_STALL_S, step
from runtime.control.sampling import Sampler
from runtime.memory.block import StatsBlock
from runtime.memory.control import Command, ControlBlock
from runtime.resources import CONTROL
from runtime.wiring import block_of

if TYPE_CHECKING:
    from runtime.contract.messages import CoordinatorMessage
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Plan
    from runtime.control.component_life import Effect
    from runtime.control.component_life import Event as LifeEvent
    from runtime.control.coordinator_keeper import CoordinatorKeeper
    from runtime.control.fork_client import ForkClient
    from runtime.control.wire import AgentWire
    from runtime.resources import Resources
    from runtime.wiring import Wiring

PERIOD_S = 0.05  #: between looks at the blocks, and between reports
FORKSERVER_PATIENCE_S = 30.0  #: how long the forkserver may owe us a birth or a death


class Agent:
    """Runs until the coordinator says that the run is over."""

    def __init__(
        self,
        plan: Plan,
        paths: RunPaths,
        wiring: Wiring,
        resources: Resources,
        forks: ForkClient,
        wire: AgentWire,
        keeper: CoordinatorKeeper,
        *,
        node: str,
        version: str,
    ) -> None:
        self._plan = plan
        self._paths = paths
        self._forks = forks
        self._wire = wire
        self._keeper = keeper
        self._node = node
        self._version = version
        self._control = ControlBlock(resources.segment(CONTROL))
        self._blocks = {name: StatsBlock(resources.segment(block_of(name))) for name in wiring.components}
        self._lives = {p.name: Life.of(p.name, p.role, plan.job.health) for p in plan.on(node)}
        self._sampler = Sampler(wiring, resources, self._blocks)
        self._events: list[Event] = []
        self._event_number = 0
        self._sequence = 0
        self._over = False
        self._forkserver_lost = False
        self._pidfds: dict[str, int] = {}
        self._stop_wanted: str | None = None
        self._stop_asked = False
        self._greeted = True  # nothing is owed to the coordinator yet
        # What others are silent for counts only while this process itself is awake.
        self._looked_at = time.monotonic()
        self._coordinator_silent_s = 0.0
        self._forkserver_owes_s = 0.0

    def run(self) -> None:
        """The loop; returns when the run is over."""
        signal.signal(signal.SIGTERM, self._on_signal)
        self._greet()
        next_look = time.monotonic()
        while not self._over:
            wait_s = max(0.0, next_look - time.monotonic())
            ready = self._wire.wait(wait_s, [] if self._forkserver_lost else [self._forks.fileno()])
            if ready:
                self._hear_forkserver()
            for message, _ in self._wire.receive():
                self._obey(message)
            now = time.monotonic()
            if now >= next_look:
                next_look = now + PERIOD_S
                self._look(now)

    def _greet(self) -> None:
        """A coordinator that has just begun gets its time to answer, and hears what the last one may have missed."""
        self._greeted = self._say_hello()
        self._coordinator_silent_s, self._stop_asked = 0.0, False

    def _say_hello(self) -> bool:
        return self._wire.send(Hello(node=self._node, pid=os.getpid(), version=self._version))

    # -- what is seen

    def _look(self, now: float) -> None:
        awake_s = min(now - self._looked_at, RECEIVER_STALL_S)
        self._looked_at = now
        self._coordinator_silent_s += awake_s
        for name, block in self._blocks.items():
            life = self._lives[name]
            if life.alive:
                beats, phase = block.beats, PHASES[block.phase]
                self._feed(name, Beat(id=f"beat-{name}-{beats}", phase=phase, beat=beats, attempt=block.attempt))
            self._feed(name, Tick(id=f"tick-{self._sequence}"))
        self._mind_forkserver(awake_s)
        if self._keeper.look(now, self._coordinator_silent_s):
            self._log("coordinator.restarted", "the coordinator was gone and has been started again", None, None)
            self._greet()
        if not self._greeted:  # no coordinator was there to hear it
            self._greeted = self._say_hello()
        if self._stop_wanted is not None and not self._stop_asked:
            self._stop_asked = self._wire.send(AskStop(node=self._node, reason=self._stop_wanted))
        self._report(now)
        self._mind_orphanhood()

    def _report(self, now: float) -> None:
        self._sequence += 1
        report = Report(
            node=self._node,
            sequence=self._sequence,
            components=self._sampler.components(self._lives, now),
            episodes=self._sampler.episodes(),
            rings=self._sampler.ledgers(),
            events=tuple(self._events),
        )
        if self._wire.send(report):
            self._events.clear()

    def _hear_forkserver(self) -> None:
        message = self._forks.receive()
        match message:
            case fork.Ready():
                for name in self._lives:
                    self._feed(name, Start(id="launch"))
            case fork.Forked(component=name, pid=pid):
                with contextlib.suppress(ProcessLookupError):  # it may be gone already; its end is reported next
                    self._pidfds[name] = os.pidfd_open(pid)
                self._feed(name, Spawned(id=f"fork-{name}-{pid}", pid=pid))
            case fork.ForkFailed(component=name, reason=reason):
                self._feed(name, SpawnFailed(id=f"fork-{name}", reason=reason))
            case fork.Gone(component=name, attempt=attempt, pid=pid, status=status):
                self._gone(name, attempt, pid, status)
            case _:
                self._lose_forkserver()

    def _gone(self, name: str, attempt: int, pid: int, status: int) -> None:
        if (descriptor := self._pidfds.pop(name, None)) is not None:
            os.close(descriptor)
        self._feed(name, Exited(id=f"exit-{name}-{pid}", status=status, report=self._words_of(name, attempt)))

    def _words_of(self, name: str, attempt: int) -> str | None:
        """The error a component left behind, if it had time for one."""
        try:
            return ExitReport.model_validate_json(self._paths.exit_report(name, attempt).read_bytes()).reason
        except (OSError, ValueError):
            return None

    def _lose_forkserver(self) -> None:
        """Nothing can be started any more: let the coordinator end the run in good order while the components live."""
        self._forkserver_lost = True
        reason = "the forkserver is gone: components cannot be restarted any more"
        self._log("forkserver.died", reason, None, None)
        self._stop_wanted = reason
        for name, life in self._lives.items():
            if _unborn(life):
                self._feed(name, SpawnFailed(id=f"spawn-{name}-{life.attempt}", reason="the forkserver is gone"))

    def _mind_forkserver(self, awake_s: float) -> None:
        """A frozen one neither makes processes nor tells of their end: kill it, and go on as without one."""
        if self._forkserver_lost:
            self._find_exits()
            return
        owes = any(_unborn(life) or life.state is ComponentState.FROZEN for life in self._lives.values())
        self._forkserver_owes_s = self._forkserver_owes_s + awake_s if owes else 0.0
        if self._forkserver_owes_s > FORKSERVER_PATIENCE_S:
            self._forks.kill()

    def _find_exits(self) -> None:
        """Without their parent, the exit of components shows on their pidfds; how they ended is not known."""
        poller = select.poll()
        names = {descriptor: name for name, descriptor in self._pidfds.items()}
        for descriptor in names:
            poller.register(descriptor, select.POLLIN)
        for descriptor, _ in poller.poll(0):
            life = self._lives[names[descriptor]]
            if life.pid is not None:
                self._gone(life.name, life.attempt, life.pid, 0 if self._control.command else -signal.SIGKILL)

    # -- what is decided elsewhere

    def _feed(self, name: str, event: LifeEvent) -> None:
        life, effects = step(self._lives[name], event, now=time.monotonic())
        self._lives[name] = life
        for effect in effects:
            self._perform(name, effect)

    def _perform(self, name: str, effect: Effect) -> None:
        match effect:
            case Spawn(attempt=attempt) if self._forkserver_lost:
                self._feed(name, SpawnFailed(id=f"spawn-{name}-{attempt}", reason="the forkserver is gone"))
            case Spawn(attempt=attempt):
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its loss is noticed when it is heard
                    self._forks.spawn(name, attempt)
            case Kill():
                self._signal(name, signal.SIGKILL)
            case Terminate():
                self._signal(name, signal.SIGTERM)
            case Log(kind=kind, message=message, cause=cause):
                self._log(kind, message, cause, name)

    def _signal(self, name: str, number: signal.Signals) -> None:
        """By descriptor: the number of a process that has just been reaped may belong to somebody else."""
        with contextlib.suppress(ProcessLookupError, KeyError):  # it is gone; its end is reported next
            signal.pidfd_send_signal(self._pidfds[name], number)

    def _log(self, kind: str, message: str, cause: str | None, component: str | None) -> None:
        self._event_number += 1
        event = Event(
            id=f"{self._node}-{self._event_number}",
            time=datetime.now(UTC),
            kind=kind,
            message=message,
            component=component,
            host=self._node,
            cause=cause,
        )
        self._events.append(event)

    # -- what the coordinator wants

    def _obey(self, message: CoordinatorMessage) -> None:
        match message:
            case Ack(env_steps=env_steps):
                self._coordinator_silent_s = 0.0
                self._keeper.heard()
                self._control.global_env_steps = env_steps
            case Checkpoint(step=checkpoint):
                if checkpoint > self._control.checkpoint_request:
                    self._control.checkpoint_request = checkpoint
            case Stop(reason=reason):
                self._stop_components(reason)
            case Shutdown() | Refused():
                self._over = True

    def _stop_components(self, reason: str) -> None:
        if self._control.command != Command.STOP:
            self._control.command = Command.STOP
            for name in self._lives:
                self._feed(name, StopRequested(id=f"stop: {reason}"))

    def _on_signal(self, number: int, _frame: object) -> None:
        self._stop_wanted = f"the agent received {signal.Signals(number).name}"

    def _mind_orphanhood(self) -> None:
        """No coordinator for too long, although the keeper restarts it: leave in good order rather than run unseen."""
        if self._coordinator_silent_s > self._plan.job.health.orphan_timeout:
            self._over = True
            self._log("agent.orphaned", "no coordinator answers: a last checkpoint, then everybody leaves", None, None)
            append_line(self._paths.events, self._events[-1].model_dump_json())


def _unborn(life: Life) -> bool:
    """Whether its process has been ordered and not been reported."""
    return life.pid is None and life.state in (ComponentState.STARTING, ComponentState.STOPPING)
