"""Real agents of several nodes on this machine, and a test in the place of their coordinator."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.messages import Ack, Assign, Hello, JoinLink, Report, Shutdown, Stop
from runtime.contract.order import AgentAnswer, AgentOrder
from runtime.contract.paths import RunPaths, node_folder
from runtime.contract.run_mark import RUN_ID_VARIABLE, carries_mark
from runtime.contract.states import RunState
from runtime.control import links
from runtime.control.wire import CoordinatorWire, make_keys, tcp_endpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.plan import Plan

NETWORK = "127.0.0.0/8"
ADDRESS = "127.0.0.1"
RUN_ID = f"two-agents-20260101-000000-{os.getpid()}"  # of this process alone: what carries it is killed in the end


class Conductor:
    """Answers reports, assigns plans and joins the link of two nodes, the first of which accepts."""

    def __init__(self, folder: Path, nodes: tuple[str, str], plan: Plan) -> None:
        self.plan = plan
        self.paths = RunPaths(folder / "coordinator" / RUN_ID)
        self.paths.root.mkdir(parents=True)
        make_keys(self.paths.keys)
        self.wire = CoordinatorWire(self.paths, ADDRESS)
        self.endpoint = tcp_endpoint(ADDRESS, self.paths.wire_port.read_text().strip())
        self.node_paths = {node: RunPaths(Path(node_folder(folder, node, RUN_ID))) for node in nodes}
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.reports: dict[str, Report] = {}
        self.hellos: dict[str, Hello] = {}
        self.episodes = 0
        self.kinds: list[str] = []  # of events
        self.paused = False
        self.link = links.Link(accepts=nodes[0], connects=nodes[1])

    def start(self, node: str) -> None:
        """As a launcher does: keys and order in the node's folder, then its agent, detached."""
        paths = self.node_paths[node]
        paths.root.mkdir(parents=True, exist_ok=True)
        paths.keys.mkdir(mode=0o700, exist_ok=True)
        for key in ("agent.public", "agent.secret", "coordinator.public", "link.key"):
            copy = paths.keys / key
            copy.touch(mode=0o600)
            copy.write_bytes((self.paths.keys / key).read_bytes())
        order = AgentOrder(
            run=str(paths.root), node=node, head=False, coordinator=self.endpoint, network=NETWORK
        )  # fmt: skip
        paths.order.write_text(order.model_dump_json())
        with (paths.root / "stderr").open("wb") as stderr:
            self.agents[node] = subprocess.Popen(
                [sys.executable, "-m", "runtime", "agent", "--order", str(paths.order)],
                env=os.environ | {RUN_ID_VARIABLE: RUN_ID},
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )

    def answer(self, node: str) -> AgentAnswer | None:
        """What the agent has answered so far."""
        path = self.node_paths[node].answer
        return AgentAnswer.model_validate_json(path.read_bytes()) if path.exists() else None

    def turn(self) -> None:
        """Hear and answer whatever has come."""
        self.wire.wait(0.02)
        now = time.monotonic()
        for node, message, _ in self.wire.receive():
            if isinstance(message, Hello):
                if node in self.hellos and self.hellos[node].instance != message.instance:
                    self._link(links.Renewed(node), now)
                self.hellos[node] = message
            elif isinstance(message, Report):
                self._hear(node, message, now)
        self._link(links.Tick(), now)

    def _hear(self, node: str, report: Report, now: float) -> None:
        self.reports[node] = report
        self.episodes += len(report.episodes)
        self.kinds += [event.kind for event in report.events]
        self.wire.send(
            node,
            Ack(sequence=report.sequence, env_steps=1, base_env_steps=0, state=RunState.RUNNING, paused=self.paused),
        )
        if report.revision < self.plan.revision:
            self.wire.send(node, Assign(plan=self.plan, attempt=1))
        for link in report.links:
            self._link(links.Reported(node, link), now)

    def _link(self, event: links.Event, now: float) -> None:
        self.link, effects = links.step(self.link, event, now=now)
        for effect in effects:
            if isinstance(effect, links.Send):
                self.wire.send(effect.node, effect.message)
                if isinstance(effect.message, JoinLink):
                    self.kinds.append("joining")

    def until(self, true: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
        """Conduct until it is so; AssertionError with `what` and what is known when the time is over."""
        deadline = time.monotonic() + timeout_s
        while not true():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout_s} s: {what}\n{self.told()}")
            self.turn()

    def told(self) -> str:
        """What is known, for a test that fails."""
        lines = [f"link {self.link.state}: {self.link.reason}"]
        for node, report in self.reports.items():
            lines.append(f"{node} revision {report.revision}: {[link.model_dump() for link in report.links]}")
            lines += [f"  {c.name} {c.state} {c.reason} {c.counters.get('env_steps')}" for c in report.components]
        for node, agent in self.agents.items():
            logs = [self.node_paths[node].root / "stderr", *sorted(self.node_paths[node].logs.glob("*.log"))]
            lines.append(f"{node}'s agent: {agent.poll()}")
            lines += [f"  {log.name}: {log.read_text(errors='replace')[-1500:]}" for log in logs if log.exists()]
        return "\n".join(lines)

    def states(self) -> dict[str, str]:
        """Of all components and couriers, by node and name."""
        return {
            f"{node}/{component.name}": str(component.state)
            for node, report in self.reports.items()
            for component in report.components
        }

    def counter(self, node: str, component: str, counter: str) -> int:
        return next(c.counters[counter] for c in self.reports[node].components if c.name == component)

    def end(self) -> None:
        """All leave; asserts that they do."""
        for node in self.agents:
            self.wire.send(node, Stop(reason="the test is over"))
        self.until(lambda: set(self.states().values()) <= {"exited", "failed"}, "everybody has left")
        for node in self.agents:
            self.wire.send(node, Shutdown(state=RunState.STOPPED, reason="the test is over"))
        self.until(lambda: all(agent.poll() is not None for agent in self.agents.values()), "agents have left")

    def close(self) -> None:
        """End whatever a test that failed has left."""
        for pid in marked():
            os.kill(pid, 9)
        for agent in self.agents.values():
            agent.wait()
        self.wire.close()


def marked() -> list[int]:
    """Processes that carry the mark of the run."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _marked(int(entry.name))]


def _marked(pid: int) -> bool:
    return pid != os.getpid() and carries_mark(pid, RUN_ID)
