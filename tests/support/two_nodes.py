"""A coordinator as a real process, and agents of several nodes as the test plays them over real sockets."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from runtime.contract.messages import (
    Ack,
    Assign,
    ComponentReport,
    Hello,
    JoinLink,
    LinkReport,
    OpenLink,
    Report,
    ResetLink,
    RingLedger,
    Shutdown,
    Stop,
)  # fmt: skip
from runtime.contract.operator import ViewRequest, ask
from runtime.contract.plan import Plan
from runtime.contract.states import ComponentState, Role
from runtime.contract.version import installed_version
from runtime.contract.view import Event, RunView
from runtime.control.wire import AgentWire, ipc_endpoint, make_keys, tcp_endpoint
from runtime.wiring import wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.paths import RunPaths

PATIENCE_S = 60.0
ADDRESS = "127.0.0.1"


class PlayedAgent:
    """Does at once what it is told, and reports it: components run, leave and drain; its links are up when both are."""

    def __init__(self, paths: RunPaths, node: str, endpoint: str, plan: Plan | None = None) -> None:
        self.paths, self.node = paths, node
        self.wire = AgentWire(paths.keys, node, endpoint)
        self.instance = uuid4().hex
        self.plan = plan
        self.sequence = 0
        self.connections = 0
        self.silent = False
        self.assigned: list[int] = []
        self.paused = False
        self.over = False
        self.stopping = False
        self.links: dict[str, LinkReport] = {}
        self.resets: list[str] = []
        self.rings: dict[str, RingLedger] = {}
        self.counters: dict[str, dict[str, int]] = {}
        self.states: dict[str, ComponentState] = {}  # where it is not what the plan says
        if plan is not None:
            self.work_by(plan)

    def work_by(self, plan: Plan) -> None:
        """This plan holds: one link for each node that this one shares something with."""
        self.plan = plan
        ready = {peer: LinkReport(peer=peer, state="ready") for peer in wire(plan, self.node).peers}
        self.links = {peer: self.links.get(peer, link) for peer, link in ready.items()}

    @property
    def revision(self) -> int:
        return self.plan.revision if self.plan is not None else 0

    def renew(self) -> None:
        """Another life of the agent: it knows nothing."""
        self.instance, self.plan, self.silent = uuid4().hex, None, False
        self.links, self.rings, self.states, self.counters = {}, {}, {}, {}

    def turn(self) -> None:
        self.wire.wait(0.0)
        for message, _ in self.wire.receive():
            self.obey(message)
        if self.silent or self.over:
            return
        if self.wire.connections != self.connections:
            self.connections = self.wire.connections
            self.hello()
        self.report()

    def obey(self, message: object) -> None:
        if self.silent:
            return
        match message:
            case Assign(plan=plan) if plan.revision > self.revision:
                self.work_by(plan)
                self.assigned.append(plan.revision)
            case OpenLink(peer=peer, serial=serial):
                self.links[peer] = LinkReport(peer=peer, state="open", serial=serial, port=f"port-{serial}")
            case JoinLink(peer=peer, serial=serial):
                self.links[peer] = LinkReport(peer=peer, state="up", serial=serial, transport="tcp", sent_per_s=1e6)
            case ResetLink(peer=peer, serial=serial):
                self.links[peer] = LinkReport(peer=peer, state="ready", serial=serial)
                self.resets.append(peer)
            case Ack(paused=paused):
                self.paused = paused
            case Stop():
                self.stopping = True
            case Shutdown():
                self.over = True

    def hello(self) -> None:
        self.wire.send(
            Hello(node=self.node, pid=os.getpid(), version=installed_version(), instance=self.instance,
                  revision=self.revision)
        )  # fmt: skip

    def report(self) -> None:
        self.sequence += 1
        placements = self.plan.on(self.node) if self.plan is not None else ()
        self.wire.send(
            Report(
                node=self.node, instance=self.instance, revision=self.revision, sent_at=time.time(),
                sequence=self.sequence, components=tuple(self._component(p) for p in placements), rings=self.rings,
                links=tuple(self.links.values()),
            )
        )  # fmt: skip

    def _component(self, placement: Any) -> ComponentReport:
        leaves = self.stopping or (placement.leaving and placement.role is Role.ACTOR)
        state = self.states.get(placement.name, ComponentState.EXITED if leaves else ComponentState.RUNNING)
        return ComponentReport(
            name=placement.name, role=placement.role, state=state, attempt=1, reason="dull",
            pid=None if state is ComponentState.EXITED else os.getpid(), counters=self.counters.get(placement.name, {}),
        )  # fmt: skip


class Theatre:
    """The run folder of the head, its coordinator, and one agent a node; `until` lets all of them go on."""

    def __init__(self, paths: RunPaths, plan: Plan) -> None:
        self.paths, self._first = paths, plan
        self.agents: dict[str, PlayedAgent] = {}
        make_keys(paths.keys)
        self.process = self.start()

    def open(self) -> None:
        """Everybody comes."""
        self.until("port", self.paths.wire_port.exists)
        for host in self._first.hosts:
            self.add(host.name, self._first if host.name == self._first.head else None)

    def add(self, node: str, plan: Plan | None = None) -> PlayedAgent:
        """An agent of one more node; that of the head knows the plan."""
        port = self.paths.wire_port.read_text().strip()
        endpoint = tcp_endpoint(ADDRESS, port) if plan is None else ipc_endpoint(self.paths)
        self.agents[node] = PlayedAgent(self.paths, node, endpoint, plan)
        return self.agents[node]

    def start(self) -> subprocess.Popen[bytes]:
        with (self.paths.logs / "coordinator.log").open("ab") as log:
            command = [sys.executable, "-m", "runtime", "coordinator", str(self.paths.root), "--listen", ADDRESS]
            return subprocess.Popen(command, stdout=log, stderr=log)

    def until(self, what: str, check: Callable[[], Any], within_s: float = PATIENCE_S) -> Any:
        """Turns of all agents, some twenty a second, until it is so."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            for agent in self.agents.values():
                agent.turn()
            if found := check():
                return found
            time.sleep(0.04)
        raise AssertionError(f"{what} did not happen within {within_s} s: {self._last_words()}")

    def _last_words(self) -> str:
        view = self.view() if self.paths.control_socket.exists() else None
        log = (self.paths.logs / "coordinator.log").read_text().splitlines()[-12:]
        return f"{view.state if view else ''} {view.reason if view else ''}\n" + "\n".join(log)

    def view(self) -> RunView:
        """As the coordinator has it; one that has just been started gets its time to answer."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return RunView.model_validate(ask(self.paths.control_socket, ViewRequest()).data)
            except (ConnectionError, FileNotFoundError):
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.02)

    def plan(self) -> Plan:
        """As it stands at the head."""
        return Plan.model_validate_json(self.paths.plan.read_bytes())

    def events(self, *kinds: str) -> list[Event]:
        lines = self.paths.events.read_text().splitlines()
        return [event for line in lines if (event := Event.model_validate_json(line)).kind in kinds]

    def kill_coordinator(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        for agent in self.agents.values():
            agent.wire.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
