"""A training loses one process after the other and goes on: real processes, real signals, the real command line."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from runtime.contract.states import ComponentState, RunState
from runtime.contract.view import RunView
from support.running import ENDLESS, PATIENT, LiveRun, tianjictl

#: Environments that take their time: the run needs the processors for a part of it only.
JOBS = {
    "ppo": "name: t\nenv: {id: CartPole-v1, num_envs: 16, delay_us: 2000}\nalgorithm: {name: ppo, rollout: 16}\n",
    "dqn": "name: t\nenv: {id: CartPole-v1, num_envs: 16, delay_us: 2000}\n"
    "algorithm: {name: dqn, learning_starts: 512}\n",
}


def start(folder: Path, algorithm: str, *settings: str) -> LiveRun:
    job = folder / "job.yaml"
    job.write_text(JOBS[algorithm] + "distributed: {learners: 1, actors: 2}\n")
    return LiveRun(folder / "home", job, *ENDLESS, "checkpoint.every=1h", PATIENT, *settings)


@pytest.fixture(params=["ppo", "dqn"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LiveRun]:
    run = start(tmp_path, request.param)
    try:
        yield run
    finally:
        run.stop()


@pytest.fixture
def ppo(tmp_path: Path) -> Iterator[LiveRun]:
    run = start(tmp_path, "ppo")
    try:
        yield run
    finally:
        run.stop()


def assert_went_on(before: RunView, after: RunView) -> None:
    for counter in ("env_steps", "updates", "episodes", "version"):
        assert getattr(after.progress, counter) >= getattr(before.progress, counter), counter
    samples = after.samples
    assert samples.in_flight >= 0
    assert samples.produced == (samples.consumed + samples.dropped_stale + samples.dropped_other + samples.in_flight)


def test_a_killed_component_of_each_role_is_replaced_and_counters_go_on(run: LiveRun) -> None:
    for name in ("actor-0", "learner-0", "buffer-0"):
        before = run.wait_for_updates()
        old = run.component(name)
        assert old.pid is not None
        os.kill(old.pid, signal.SIGKILL)
        run.wait_replaced(name, old)
        after = run.wait_for_updates()
        assert_went_on(before, after)
        assert after.state is RunState.RUNNING
        (died,) = [event for event in run.events("component.died") if event["component"] == name]
        assert "SIGKILL" in died["message"]
        restarted = [event for event in run.events("component.restarting") if event["component"] == name]
        assert restarted, "every death has its consequence in the log"


def test_a_frozen_component_of_each_role_is_noticed_and_replaced(tmp_path: Path) -> None:
    run = start(tmp_path, "ppo", "health.steady=3s")
    try:
        for name in ("actor-1", "learner-0", "buffer-0"):
            before = run.wait_for_updates()
            old = run.component(name)
            assert old.pid is not None
            os.kill(old.pid, signal.SIGSTOP)
            run.wait_replaced(name, old)
            assert_went_on(before, run.wait_for_updates())
            frozen = [event for event in run.events("component.frozen") if event["component"] == name]
            assert frozen
            assert all("no heartbeat" in event["message"] for event in frozen)
    finally:
        run.stop()


def test_training_does_not_wait_for_a_lost_actor(ppo: LiveRun) -> None:
    ppo.wait_for_updates()
    old = ppo.component("actor-0")
    assert old.pid is not None
    os.kill(old.pid, signal.SIGSTOP)  # frozen: it will be missing for as long as the heartbeat limit
    ppo.wait_for_updates(10)
    assert ppo.component("actor-0").attempt == old.attempt, "updates went on before it was replaced"


def _alive(view: RunView, name: str) -> bool:
    return any(c.name == name and c.state is ComponentState.RUNNING for c in view.components)


def test_a_run_whose_agent_is_killed_writes_a_checkpoint_stops_and_can_be_continued(run: LiveRun) -> None:
    before = run.wait_for_updates()
    os.kill(run.agent_pid(), signal.SIGKILL)
    lost = run.wait(lambda view: view.state is RunState.LOST, what="being lost")
    run.wait_gone()
    assert lost.checkpoints.complete == 1
    tianjictl(run.home, "resume", run.run_id, "--from-checkpoint", "--yes", "-d")
    resumed = run.wait_for_updates()
    assert resumed.attempt == 2
    assert_went_on(before, resumed)
    assert resumed.progress.env_steps > (lost.checkpoints.last_step or 0)


def test_a_run_that_lost_every_process_at_once_continues_from_its_checkpoint(run: LiveRun) -> None:
    run.wait_for_updates()
    tianjictl(run.home, "checkpoint", run.run_id)
    saved = run.view().checkpoints.last_step
    assert saved is not None
    for pid in run.processes():
        os.kill(pid, signal.SIGKILL)
    run.wait_gone()
    shown = tianjictl(run.home, "status", run.run_id).stdout
    assert "lost" in shown
    tianjictl(run.home, "resume", run.run_id, "--from-checkpoint", "latest", "--yes", "-d")
    assert run.wait_for_updates().progress.env_steps > saved


def _coordinator(run: LiveRun) -> int:
    (pid,) = [pid for pid, command in run.processes().items() if "runtime coordinator" in command]
    return pid


def _forkserver(run: LiveRun) -> int:
    components = {component.pid for component in run.view().components}
    found = {pid for pid, command in run.processes().items() if "runtime forkserver" in command}
    (pid,) = found - components
    return pid


def test_a_killed_coordinator_is_replaced_and_the_training_never_notices(ppo: LiveRun) -> None:
    before = ppo.wait_for_updates()
    pids = {component.name: component.pid for component in before.components}
    os.kill(_coordinator(ppo), signal.SIGKILL)
    ppo.wait(lambda _: any(e for e in ppo.events("coordinator.resumed")), what="a new coordinator")
    after = ppo.wait_for_updates()
    assert_went_on(before, after)
    assert {component.name: component.pid for component in after.components} == pids
    assert after.state is RunState.RUNNING


def test_an_agent_and_a_coordinator_that_stand_still_for_a_while_cost_no_component(tmp_path: Path) -> None:
    run = start(tmp_path, "ppo", "health.orphan_timeout=6s", "health.steady=5s")
    try:
        before = run.wait_for_updates()
        pids = {component.name: component.pid for component in before.components}
        agent = run.agent_pid()
        os.kill(agent, signal.SIGSTOP)
        run.wait(lambda view: (view.hosts[0].heartbeat_age_s or 0.0) > 6.5, what="a silence beyond any limit")
        os.kill(agent, signal.SIGCONT)
        run.wait(lambda view: view.state is RunState.RUNNING, what="the agent's word")
        frozen = _coordinator(run)
        os.kill(frozen, signal.SIGSTOP)
        run.wait(lambda _: any(e for e in run.events("coordinator.resumed")), what="a new coordinator")
        after = run.wait_for_updates()
        assert_went_on(before, after)
        assert {component.name: component.pid for component in after.components} == pids
        assert not run.events("agent.orphaned")
    finally:
        run.stop()


def test_components_that_lose_agent_and_forkserver_leave_by_themselves(ppo: LiveRun) -> None:
    ppo.wait_for_updates()
    os.kill(ppo.agent_pid(), signal.SIGKILL)
    os.kill(_forkserver(ppo), signal.SIGKILL)
    ppo.wait_gone()
    assert ppo.view().state is RunState.LOST


def test_a_run_that_loses_its_forkserver_ends_in_good_order_with_a_checkpoint(ppo: LiveRun) -> None:
    ppo.wait_for_updates()
    os.kill(_forkserver(ppo), signal.SIGKILL)
    ended = ppo.wait(lambda view: view.state in (RunState.STOPPED, RunState.FAILED), what="the end of the run")
    ppo.wait_gone()
    assert ended.checkpoints.complete == 1
    assert "forkserver" in ended.reason


def test_sigterm_to_the_agent_means_checkpoint_and_stop(ppo: LiveRun) -> None:
    ppo.wait_for_updates()
    os.kill(ppo.agent_pid(), signal.SIGTERM)
    ended = ppo.wait(lambda view: view.state is RunState.STOPPED, what="stopping")
    ppo.wait_gone()
    assert ended.checkpoints.complete == 1
    assert "SIGTERM" in ended.reason


def test_launches_and_stops_in_a_row_leave_nothing_behind(tmp_path: Path) -> None:
    for _ in range(3):
        run = start(tmp_path, "ppo")
        run.wait_for_updates()
        memory = _memory_files(run.processes())
        assert len(memory) >= 4
        run.stop()
        assert not memory & _memory_files(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        assert run.view().state is RunState.STOPPED
        assert not list(run.paths.root.glob("*.sock"))
        assert not list(run.paths.root.rglob("*.tmp*"))


def _memory_files(pids: Iterable[int]) -> set[tuple[int, int]]:
    """memfds that these processes hold, by device and inode: other runs may be on this machine."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it may be gone by now
            for held in Path(f"/proc/{pid}/fd").iterdir():
                if "/memfd:" in str(held.readlink()):
                    status = held.stat()
                    found.add((status.st_dev, status.st_ino))
    return found
