"""An agent over real shared memory that is turned by hand, with the test in the place of everybody around it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.messages import Ack, Assign, Report
from runtime.contract.order import AgentOrder
from runtime.contract.paths import RunPaths
from runtime.contract.plan import Plan
from runtime.contract.states import PHASES, ComponentState, Phase, RunState
from runtime.control import agent as agent_module
from runtime.control import fork_protocol as fork
from runtime.control.agent import NOTHING, PERIOD_S, Agent
from runtime.memory.block import StatsBlock
from runtime.memory.control import ControlBlock
from runtime.resources import CONTROL, Resources
from runtime.wiring import block_of
from support.plans import make_job, make_plan


class Forks:
    """A forkserver that does what the test says."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.ordered: list[tuple[str, int]] = []
        self.held: set[str] = set()
        self.killed = False

    def fileno(self) -> int:
        return 0

    def set_up(self, _root: Path, _node: str, _attempt: int, _resume_from: Any, resources: Resources) -> None:
        self.held.update(resources.descriptors()[0])

    def extend(self, names: list[str], descriptors: list[int]) -> None:
        assert len(names) == len(descriptors)
        assert self.held.isdisjoint(names)
        self.held.update(names)

    def forget(self, names: list[str]) -> None:
        self.held.difference_update(names)

    def spawn(self, name: str, attempt: int) -> None:
        self.ordered.append((name, attempt))

    def receive(self) -> Any:
        return self.messages.pop(0)

    def kill(self) -> None:
        self.killed = True


class Wire:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.connections = 0
        self.broken = False

    def send(self, message: Any, _blob: bytes | None = None) -> bool:
        if not self.broken:
            self.sent.append(message)
        return not self.broken

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.sent if isinstance(message, kind)]


class Keeper:
    """Restarts the coordinator when the test wants it."""

    def __init__(self) -> None:
        self.restarts_now = False
        self.silences: list[float] = []
        self.ended = False

    def look(self, _now: float, silent_s: float) -> bool:
        self.silences.append(silent_s)
        return self.restarts_now

    def heard(self) -> None: ...


class Rig:
    """`now` is the agent's clock. On the head it has a plan (L1A1) from the beginning, elsewhere none."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, node: str | None = None) -> None:
        self.plan = make_plan(make_job(health={"orphan_timeout": 10.0}))
        head = node is None
        self.node = node or self.plan.head
        self.resources = Resources.create(NOTHING, shared=True)
        self.control = ControlBlock(self.resources.segment(CONTROL))
        self.paths = RunPaths(folder)
        self.paths.logs.mkdir()
        self.now = 100.0
        monkeypatch.setattr(agent_module.time, "monotonic", lambda: self.now)
        self.signals: list[tuple[str, signal.Signals]] = []
        monkeypatch.setattr(signal, "pidfd_send_signal", self._signalled)
        self.forks, self.wire, self.keeper = Forks(), Wire(), Keeper()
        ends: Any = (self.forks, self.wire, self.keeper if head else None)
        order = AgentOrder(run=str(folder), node=self.node, head=head)
        self.agent = Agent(order, self.paths, self.resources, *ends, instance="0123456789abcdef")
        self.crew = self.agent._crew
        if head:
            self.agent.adopt(self.plan, 1)

    def _signalled(self, descriptor: int, number: signal.Signals) -> None:
        (name,) = [name for name, known in self.crew._pidfds.items() if known == descriptor]
        self.signals.append((name, number))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.crew.lives)

    def hear(self, *messages: Any) -> None:
        for message in messages:
            self.forks.messages.append(message)
            self.crew.hear_forkserver()

    def born(self, name: str, attempt: int = 1) -> None:
        self.hear(fork.Forked(component=name, attempt=attempt, pid=os.getpid()))
        block = self.block(name)
        block.attempt, block.phase = attempt, PHASES.index(Phase.STEADY)

    def work(self) -> None:
        """The forkserver is there, and everybody works."""
        self.hear(fork.Ready())
        for name in self.names:
            self.born(name)
        self.look()

    def end(self, name: str, attempt: int = 1, status: int = 0) -> None:
        self.hear(fork.Gone(component=name, attempt=attempt, pid=os.getpid(), status=status))

    def block(self, name: str) -> StatsBlock:
        return StatsBlock(self.resources.segment(block_of(name)))

    def look(self, after_s: float = PERIOD_S, *, beating: tuple[str, ...] | None = None) -> None:
        self.now += after_s
        for name in self.names if beating is None else beating:
            self.block(name).beat()
        self.agent._look(self.now)

    def tell(self, message: Any) -> None:
        self.agent._obey(message, None)

    def ack(self, state: RunState = RunState.RUNNING, **more: Any) -> None:
        self.tell(Ack(sequence=1, env_steps=7, base_env_steps=0, state=state, **more))

    def assign(self, plan: Plan) -> None:
        self.tell(Assign(plan=plan, attempt=1))
        self.look()

    @property
    def report(self) -> Report:
        newest: Report = self.wire.of(Report)[-1]
        return newest

    def states(self) -> dict[str, ComponentState]:
        return {component.name: component.state for component in self.report.components}
