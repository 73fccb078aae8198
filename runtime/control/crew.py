"""The components of a node as processes: ordered from the forkserver, watched by their blocks, told by signals.

The shell around `component_machine`: it reads blocks and messages, feeds events, performs effects.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import TYPE_CHECKING

from runtime.components.driver import ExitReport
from runtime.contract.states import PHASES, ComponentState
from runtime.control import fork_protocol as fork
from runtime.control.component_life import (
    Beat,
    Exited,
    HandOver,
    Kill,
    LeaveRequested,
    Life,
    Log,
    ReplaceRequested,
    Spawn,
    Spawned,
    SpawnFailed,
    Start,
    StopRequested,
    Terminate,
    Tick,
)
from runtime.control.component_machine import step
from runtime.memory.block import StatsBlock
from runtime.memory.control import Command, ControlBlock
from runtime.resources import CONTROL
from runtime.wiring import block_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.job import HealthConfig
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Placement
    from runtime.control.component_life import Effect
    from runtime.control.component_life import Event as LifeEvent
    from runtime.control.fork_client import ForkClient
    from runtime.control.outbox import Outbox
    from runtime.resources import Resources

Word = fork.Forked | fork.ForkFailed | fork.Gone
FORKSERVER_PATIENCE_S = 30.0  #: how long the forkserver may owe us a birth or a death


class Crew:
    """Components come and go with the plan; `lives` has those of the present one, `retired` those that still leave."""

    def __init__(
        self, paths: RunPaths, resources: Resources, forks: ForkClient, outbox: Outbox, others: Callable[[Word], None]
    ) -> None:
        """`others` hears what the forkserver says of processes that are none of this crew."""
        self._others = others
        self.lives: dict[str, Life] = {}
        self.retired: dict[str, Life] = {}
        self.blocks: dict[str, StatsBlock] = {}
        self.forkserver_lost = False
        self._paths = paths
        self._resources = resources
        self._forks = forks
        self._outbox = outbox
        self._control = ControlBlock(resources.segment(CONTROL))
        self._ready = False
        self._pidfds: dict[str, int] = {}
        self._forkserver_owes_s = 0.0
        self._looks = 0

    # -- who belongs to it

    def add(self, placement: Placement, health: HealthConfig) -> None:
        """A component that is wanted from now on; its memory is there."""
        self.lives[placement.name] = Life.of(placement.name, placement.role, health)
        self.blocks[placement.name] = StatsBlock(self._resources.segment(block_of(placement.name)))
        if self._ready:
            self._feed(placement.name, Start(id="plan"))

    def replace(self, name: str, cause: str) -> None:
        """What it is connected to has changed."""
        self._feed(name, ReplaceRequested(id=cause))

    def leave(self, name: str, cause: str) -> None:
        """It alone leaves."""
        self._feed(name, LeaveRequested(id=cause))

    def retire(self, name: str, cause: str) -> None:
        """The plan has it no more: it leaves, and is forgotten once it has left."""
        self.leave(name, cause)
        self.retired[name] = self.lives.pop(name)

    def forget_retired(self) -> tuple[str, ...]:
        """Retired ones that have left by now, for the last time that they are spoken of."""
        gone = tuple(name for name, life in self.retired.items() if life.over)
        for name in gone:
            del self.retired[name], self.blocks[name]
        return gone

    def stop(self, reason: str) -> None:
        """All leave; those that work see it in the control block."""
        if self._control.command != Command.STOP:
            self._control.command = Command.STOP
            for name in (*self.lives, *self.retired):
                self._feed(name, StopRequested(id=f"stop: {reason}"))

    @property
    def stopping(self) -> bool:
        return self._control.command == Command.STOP

    def settled(self) -> bool:
        """Whether everybody who was ordered has read the plan, so that it may be replaced by the next."""
        starting = (ComponentState.STARTING, ComponentState.STOPPING)
        return not any(
            life.state in starting and not life.over and self.blocks[name].attempt != life.attempt
            for name, life in self._everybody().items()
        )

    # -- what is seen

    def look(self, awake_s: float) -> None:
        """Once a period: heartbeats and time; `awake_s` of it counts against others."""
        self._looks += 1
        for name in self._everybody():
            block, life = self.blocks[name], self._life(name)
            if life.alive:
                beats, phase = block.beats, PHASES[block.phase]
                self._feed(name, Beat(id=f"beat-{name}-{beats}", phase=phase, beat=beats, attempt=block.attempt))
            self._feed(name, Tick(id=f"tick-{self._looks}"))
        self._mind_forkserver(awake_s)

    def hear_forkserver(self) -> None:
        """Take its next message; call when there is one."""
        message = self._forks.receive()
        match message:
            case fork.Ready():
                self._ready = True
                for name in self.lives:
                    self._feed(name, Start(id="launch"))
            case fork.Forked() | fork.ForkFailed() | fork.Gone() if message.component not in self._everybody():
                self._others(message)
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

    def close(self) -> None:
        """Give descriptors back."""
        for descriptor in self._pidfds.values():
            os.close(descriptor)
        self._pidfds.clear()

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
        """Nothing can be started any more."""
        self.forkserver_lost = True
        self._outbox.log("forkserver.died", "the forkserver is gone: components cannot be restarted any more")
        for name, life in self._everybody().items():
            if _unborn(life):
                self._feed(name, SpawnFailed(id=f"spawn-{name}-{life.attempt}", reason="the forkserver is gone"))

    def _mind_forkserver(self, awake_s: float) -> None:
        """A frozen one neither makes processes nor tells of their end: kill it, and go on as without one."""
        if self.forkserver_lost:
            self._find_exits()
            return
        owes = any(_unborn(life) or life.state is ComponentState.FROZEN for life in self._everybody().values())
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
            life = self._life(names[descriptor])
            if life.pid is not None:
                self._gone(life.name, life.attempt, life.pid, 0 if self.stopping else -signal.SIGKILL)

    # -- what is decided elsewhere

    def _everybody(self) -> dict[str, Life]:
        return self.lives | self.retired

    def _life(self, name: str) -> Life:
        return self.lives[name] if name in self.lives else self.retired[name]

    def _feed(self, name: str, event: LifeEvent) -> None:
        life, effects = step(self._life(name), event, now=time.monotonic())
        (self.lives if name in self.lives else self.retired)[name] = life
        for effect in effects:
            self._perform(name, effect)

    def _perform(self, name: str, effect: Effect) -> None:
        match effect:
            case Spawn(attempt=attempt) if self.forkserver_lost:
                self._feed(name, SpawnFailed(id=f"spawn-{name}-{attempt}", reason="the forkserver is gone"))
            case Spawn(attempt=attempt):
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its loss is noticed when it is heard
                    self._forks.spawn(name, attempt)
            case Kill():
                self._signal(name, signal.SIGKILL)
            case Terminate():
                self._signal(name, signal.SIGTERM)
            case HandOver():
                self._signal(name, signal.SIGUSR2)
            case Log(kind=kind, message=message, cause=cause):
                self._outbox.log(kind, message, cause, name)

    def _signal(self, name: str, number: signal.Signals) -> None:
        """By descriptor: the number of a process that has just been reaped may belong to somebody else."""
        with contextlib.suppress(ProcessLookupError, KeyError):  # it is gone; its end is reported next
            signal.pidfd_send_signal(self._pidfds[name], number)


def _unborn(life: Life) -> bool:
    """Whether its process has been ordered and not been reported."""
    return life.pid is None and life.state in (ComponentState.STARTING, ComponentState.STOPPING)
