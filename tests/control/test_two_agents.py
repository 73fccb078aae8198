"""Real agents of two nodes on this machine with all their processes, conducted by the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.contract.plan import Placement
from runtime.contract.run_mark import RUN_ID_VARIABLE
from runtime.wiring import wire
from support.conductor import Conductor, marked
from support.many_nodes import placed, plan_over
from support.plans import make_job

JOB = make_job(health={"steady": "5s", "orphan_timeout": "5s", "stop_grace": "5s"})
GROUP = (placed("learner-0", "n1"), placed("buffer-0", "n1"))


def revision(number: int, *actors: Placement) -> object:
    return plan_over(*GROUP, *actors, job=JOB, revision=number)


@pytest.fixture
def conductor(tmp_path: Path) -> Iterator[Conductor]:
    asked = "import mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI"
    if subprocess.run([sys.executable, "-c", asked], capture_output=True, check=False).returncode != 0:
        pytest.skip("no MPI library")
    first = revision(1, placed("actor-0", "n1"), placed("actor-1", "n2"))
    made = Conductor(tmp_path, ("n1", "n2"), first)
    yield made
    made.close()


def trains(conductor: Conductor, *actors: str) -> None:
    """Until every one of these actors has played and the learner has trained on fragments of each."""
    start = {actor: conductor.reports["n1"].rings[f"fragments.{actor}"].consumed for actor in actors}
    updates = conductor.counter("n1", "learner-0", "updates")

    def done() -> bool:
        rings = conductor.reports["n1"].rings
        used = all(rings[f"fragments.{actor}"].consumed > start[actor] for actor in actors)
        return used and conductor.counter("n1", "learner-0", "updates") > updates + 5

    conductor.until(done, f"training on what {', '.join(actors)} make")


def test_a_plan_over_two_nodes_trains_changes_and_leaves_nothing_behind(conductor: Conductor) -> None:
    for node in ("n1", "n2"):
        conductor.start(node)
    conductor.until(lambda: all(conductor.answer(node) is not None for node in ("n1", "n2")), "both answer")
    assert all((answer := conductor.answer(node)) is not None and answer.ready for node in ("n1", "n2"))
    wanted = {"n1/learner-0", "n1/buffer-0", "n1/actor-0", "n1/courier.n2", "n2/actor-1", "n2/courier.n1"}
    conductor.until(
        lambda: conductor.states() == dict.fromkeys(wanted, "running") and conductor.link.state == "up",
        "everybody works",
    )
    assert {hello.revision for hello in conductor.hellos.values()} == {0}
    trains(conductor, "actor-0", "actor-1")
    (link,) = conductor.reports["n2"].links
    policy = wire(conductor.plan, "n2").boards["policy.0"].layout.nbytes
    conductor.until(lambda: conductor.reports["n2"].links[0].received_raw >= 2 * policy, "new policies come")
    assert (link.peer, link.state, link.transport) == ("n1", "up", "tcp")

    conductor.plan = revision(
        2, placed("actor-0", "n1", leaving=True), placed("actor-1", "n2"), placed("actor-2", "n2")
    )
    wanted |= {"n2/actor-2"}
    conductor.until(
        lambda: conductor.states() == dict.fromkeys(wanted, "running") | {"n1/actor-0": "exited"}, "the larger shape"
    )
    trains(conductor, "actor-1", "actor-2")
    ring = conductor.reports["n1"].rings["fragments.actor-0"]
    assert ring.produced == ring.consumed + ring.dropped_stale + ring.dropped_other, "nothing of it is left behind"

    conductor.plan = revision(3, placed("actor-1", "n2"), placed("actor-2", "n2"))
    wanted -= {"n1/actor-0"}
    conductor.until(
        lambda: (
            {report.revision for report in conductor.reports.values()} == {3}
            and conductor.states() == dict.fromkeys(wanted, "running")
        ),
        "the smaller shape",
    )
    trains(conductor, "actor-1", "actor-2")
    assert "fragments.actor-0" not in conductor.reports["n1"].rings
    everybody = [component for report in conductor.reports.values() for component in report.components]
    assert {component.restarts for component in everybody} == {0}
    assert conductor.kinds.count("component.replaced") >= 2
    assert not {"component.died", "component.frozen", "plan.refused"} & set(conductor.kinds)
    conductor.end()
    near, far = (conductor.reports[node].rings["fragments.actor-1"] for node in ("n2", "n1"))
    assert near.produced >= far.produced >= far.consumed >= near.consumed > 0
    assert {agent.returncode for agent in conductor.agents.values()} == {0}
    assert marked() == []
    for paths in conductor.node_paths.values():
        assert [path for path in paths.root.rglob("*") if path.is_socket()] == []


def test_an_agent_that_cannot_reach_its_coordinator_says_so_in_its_answer(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runtime.control import agent_main

    monkeypatch.setattr(agent_main, "_CONNECTED_WITHIN_S", 0.5)
    monkeypatch.setenv(RUN_ID_VARIABLE, "set by the agent")  # and afterwards again not there
    conductor.endpoint = "tcp://127.0.0.1:1"
    paths = conductor.node_paths["n2"]
    conductor.start("n2")
    conductor.agents["n2"].kill()
    conductor.agents["n2"].wait()
    assert agent_main.main(["--order", str(paths.order)]) == 1
    answer = conductor.answer("n2")
    assert answer is not None
    assert not answer.ready
    assert "tcp://127.0.0.1:1 did not let this node in" in (answer.error or "")
    assert (paths.answer.stat().st_mode & 0o777) == 0o600


def test_a_node_without_a_coordinator_writes_its_shards_and_leaves_nothing(conductor: Conductor) -> None:
    for node in ("n1", "n2"):
        conductor.start(node)
    conductor.until(lambda: conductor.states().get("n1/learner-0") == "running", "it trains")
    conductor.until(lambda: conductor.link.state == "up", "the link is up")
    conductor.wire.close()
    for agent in conductor.agents.values():
        assert agent.wait(30) == 0
    assert marked() == []
    shards = {path.name for path in conductor.node_paths["n1"].checkpoints.glob("*/*")}
    assert {"learner-0.json", "buffer-0.json"} <= shards


def test_the_death_of_an_agent_away_from_the_head_costs_its_node_a_moment(conductor: Conductor) -> None:
    for node in ("n1", "n2"):
        conductor.start(node)
    conductor.until(lambda: conductor.states().get("n2/actor-1") == "running", "it plays")
    conductor.until(lambda: conductor.link.state == "up", "the link is up")
    before = conductor.hellos["n2"].instance
    os.kill(conductor.agents["n2"].pid, signal.SIGKILL)
    conductor.agents["n2"].wait()
    conductor.until(lambda: conductor.hellos["n2"].instance != before, "its successor introduces itself")
    successor = conductor.hellos["n2"]
    conductor.until(lambda: conductor.reports["n2"].instance == successor.instance, "its successor reports")
    conductor.until(lambda: conductor.states().get("n2/actor-1") == "running", "it plays again")
    conductor.until(lambda: conductor.link.state == "up", "the link is up again")
    trains(conductor, "actor-1")
    courier = next(c for c in conductor.reports["n1"].components if c.name == "courier.n2")
    assert (courier.attempt, courier.restarts) == (2, 0), "what it knew of its peer's memory was forgotten, at no cost"
    conductor.end()
    conductor.until(lambda: marked() == [], "nothing is left")
