"""A whole run on two nodes of this machine: agents, coordinator, components and couriers as they are."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.operator import Difference, ScaleRequest, StopRequest, ViewRequest, ask
from runtime.contract.order import AgentAnswer, AgentOrder
from runtime.contract.paths import RunPaths, node_folder
from runtime.contract.record import CompletionRecord
from runtime.contract.run_mark import RUN_ID_VARIABLE, carries_mark
from runtime.contract.states import RunState
from runtime.contract.view import RunView
from support.conductor import NETWORK
from support.many_nodes import placed, plan_over
from support.plans import make_job

RUN_ID = f"two-nodes-20260101-000000-{os.getpid()}"
JOB = make_job(
    health={"steady": "10s", "stop_grace": "5s", "node": "8s"},
    distributed={"oversubscribe": True},
    checkpoint={"every": "2s", "copies": 1},
    elastic={"min": "L1A1", "max": "L2A6"},
)
PLAN = plan_over(
    placed("learner-0", "n1"), placed("buffer-0", "n1"), placed("actor-0", "n1"), placed("actor-1", "n2"), job=JOB
)


class Nodes:
    """The head and another node, started as a launcher does."""

    def __init__(self, folder: Path, write_run_files: Any) -> None:
        self.head = RunPaths(folder / RUN_ID)
        self.member = RunPaths(Path(node_folder(folder, "n2", RUN_ID)))
        for paths in (self.head, self.member):
            paths.root.mkdir(parents=True)
        write_run_files(self.head, PLAN)
        self.agents: list[subprocess.Popen[bytes]] = []
        endpoint = self._start(self.head, AgentOrder(run=str(self.head.root), node="n1", network=NETWORK)).endpoint
        self.member.keys.mkdir(mode=0o700)
        for key in ("agent.public", "agent.secret", "coordinator.public", "link.key"):
            (self.member.keys / key).touch(mode=0o600)
            (self.member.keys / key).write_bytes((self.head.keys / key).read_bytes())
        order = AgentOrder(
            run=str(self.member.root), node="n2", head=False, coordinator=endpoint, network=NETWORK
        )  # fmt: skip
        self._start(self.member, order)

    def _start(self, paths: RunPaths, order: AgentOrder) -> AgentAnswer:
        paths.order.write_text(order.model_dump_json())
        with (paths.root / "stderr").open("wb") as stderr:
            agent = subprocess.Popen(
                [sys.executable, "-m", "runtime", "agent", "--order", str(paths.order)],
                env=os.environ | {RUN_ID_VARIABLE: RUN_ID},
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
        self.agents.append(agent)
        until(lambda: paths.answer.exists() or agent.poll() is not None, f"{order.node} answers")
        answer = AgentAnswer.model_validate_json(paths.answer.read_bytes())
        assert answer.ready, answer
        return answer

    def view(self) -> RunView:
        return RunView.model_validate(ask(self.head.control_socket, ViewRequest()).data)

    def working(self) -> set[str]:
        """Components and couriers that are running, as `actor-1 on n2`."""
        return {f"{c.name} on {c.host}" for c in self.view().components if c.state == "running"}

    def scale(self, shape: str) -> Difference:
        reply = ask(self.head.control_socket, ScaleRequest(shape=shape))
        assert reply.ok, reply
        return Difference.model_validate(reply.data)

    def processes(self) -> list[int]:
        found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in found if pid != os.getpid() and carries_mark(pid, RUN_ID)]

    def close(self) -> None:
        for pid in self.processes():
            os.kill(pid, 9)
        for agent in self.agents:
            agent.wait()


def until(true: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.05)


@pytest.fixture
def nodes(tmp_path: Path, write_run_files: Any) -> Iterator[Nodes]:
    asked = "import mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI"
    if subprocess.run([sys.executable, "-c", asked], capture_output=True, check=False).returncode != 0:
        pytest.skip("no MPI library")
    made = Nodes(tmp_path, write_run_files)
    yield made
    made.close()


def test_a_run_on_two_nodes_grows_shrinks_is_copied_and_leaves_nothing_behind(nodes: Nodes) -> None:
    small = {
        "learner-0 on n1",
        "buffer-0 on n1",
        "actor-0 on n1",
        "actor-1 on n2",
        "courier.n2 on n1",
        "courier.n1 on n2",
    }
    until(lambda: nodes.working() == small and nodes.view().state is RunState.RUNNING, "the first shape")
    assert nodes.head.wire_port.exists()
    difference = nodes.scale("L1A4")
    assert len(difference.starts) == 2
    until(lambda: len(nodes.working()) == len(small) + 2, "the larger shape")
    updates = nodes.view().progress.updates
    until(lambda: nodes.view().progress.updates > updates + 5, "it trains")
    nodes.scale("L1A2")
    until(lambda: len(nodes.working()) == len(small) and nodes.view().state is RunState.RUNNING, "the smaller shape")
    until(lambda: any(nodes.member.checkpoints.glob("step-*/manifest.json")), "a copy on the other node")
    ledger = nodes.view().samples
    assert ledger.produced == ledger.consumed + ledger.dropped_stale + ledger.dropped_other + ledger.in_flight
    assert ask(nodes.head.control_socket, StopRequest()).ok
    until(lambda: all(agent.poll() is not None for agent in nodes.agents), "the agents have left")
    ended = CompletionRecord.model_validate_json(nodes.head.completion.read_bytes())
    assert ended.state is RunState.STOPPED
    until(lambda: nodes.processes() == [], "nothing is left", 5.0)
    assert [path for paths in (nodes.head, nodes.member) for path in paths.root.rglob("*") if path.is_socket()] == []
