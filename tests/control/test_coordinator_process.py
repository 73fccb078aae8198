"""The coordinator as a real process, spoken to by a real socket that plays the agent."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest

from runtime.checkpoint.manifest import read_manifest
from runtime.checkpoint.names import failure_note, partial_folder, step_folder
from runtime.checkpoint.store import verify
from runtime.contract.messages import (
    Ack,
    AskStop,
    Checkpoint,
    ComponentReport,
    EpisodeReport,
    Hello,
    Refused,
    Report,
    RingLedger,
    Shutdown,
    Stop,
)  # fmt: skip
from runtime.contract.operator import CheckpointRequest, StopRequest, ViewRequest, ask
from runtime.contract.record import CompletionRecord
from runtime.contract.states import ComponentState, RunState
from runtime.contract.view import Event, RunView
from runtime.control.orphan_record import OrphanRecord
from runtime.control.wire import AgentWire, ipc_endpoint, make_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runtime.contract.messages import CoordinatorMessage
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Plan

PATIENCE_S = 60.0


def wait_for(what: str, check: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := check():
            return found
        time.sleep(0.01)
    raise AssertionError(f"{what} did not happen within {PATIENCE_S} s")


class FakeAgent:
    """Reports what the test wants; obeys nothing by itself."""

    def __init__(self, paths: RunPaths, plan: Plan, node: str = "n1") -> None:
        self.paths, self.plan, self.node = paths, plan, node
        self.wire = AgentWire(paths.keys, node, ipc_endpoint(paths))
        self.heard: list[CoordinatorMessage] = []
        self.state = dict.fromkeys((p.name for p in plan.placements), ComponentState.RUNNING)
        self.pid: int | None = os.getpid()
        self.counters: dict[str, int] = {}
        self.rings: dict[str, RingLedger] = {}
        self.done = 0
        self.sequence = 0

    def hello(self, theirs: str = version("tianjictl")) -> None:
        hello = Hello(node=self.node, pid=os.getpid(), version=theirs)
        wait_for("a connection", lambda: self.wire.wait(0.0) is not None and self.wire.send(hello))

    def report(self, returns: tuple[float, ...] = (), events: tuple[Event, ...] = ()) -> None:
        self.sequence += 1
        components = tuple(
            ComponentReport(
                name=p.name, role=p.role, state=self.state[p.name], attempt=1, counters=self.counters,
                checkpoint_done=self.done, reason="dull",
                pid=self.pid if self.state[p.name] is ComponentState.RUNNING else None,
            )
            for p in self.plan.placements
        )  # fmt: skip
        episodes = tuple(EpisodeReport(component="actor-0", episode_return=value, length=10) for value in returns)
        self.wire.send(
            Report(
                node=self.node, sequence=self.sequence, components=components, episodes=episodes, rings=self.rings,
                events=events,
            )
        )  # fmt: skip

    def hear(self, kind: type[Any]) -> Any:
        """Report on until a message of this kind has come."""

        def look() -> Any:
            self.report()
            self.wire.wait(0.02)
            self.heard += [message for message, _ in self.wire.receive()]
            return next((message for message in self.heard if isinstance(message, kind)), None)

        return wait_for(kind.__name__, look)

    def write_shards(self, step: int) -> None:
        for placement in self.plan.placements:
            (partial_folder(self.paths.checkpoints, step) / f"{placement.name}.json").write_text("{}")
        self.done = step

    def leave(self) -> None:
        self.state = dict.fromkeys(self.state, ComponentState.EXITED)


class Stage:
    """A run folder, a coordinator process over it, and an agent."""

    def __init__(self, paths: RunPaths, plan: Plan) -> None:
        self.paths, self.plan = paths, plan
        make_keys(paths.keys)
        self.agent = FakeAgent(paths, plan)
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        with (self.paths.logs / "coordinator.log").open("ab") as log:
            command = [sys.executable, "-m", "runtime", "coordinator", str(self.paths.root)]
            return subprocess.Popen(command, stdout=log, stderr=log)

    def view(self) -> RunView:
        return RunView.model_validate(ask(self.paths.control_socket, ViewRequest()).data)

    def until_running(self) -> None:
        self.agent.hello()
        self.agent.hear(Ack)
        wait_for("running", lambda: self.view().state is RunState.RUNNING)

    def completion(self) -> CompletionRecord:
        assert self.process.wait(PATIENCE_S) == 0, (self.paths.logs / "coordinator.log").read_text()
        return CompletionRecord.model_validate_json(self.paths.completion.read_bytes())

    def events(self) -> list[Event]:
        return [Event.model_validate_json(line) for line in self.paths.events.read_text().splitlines()]

    def story(self, kind: str) -> list[str]:
        """Kinds of events from the last of `kind` back along the causes."""
        known = {event.id: event for event in self.events()}
        event: Event | None = [event for event in known.values() if event.kind == kind][-1]
        kinds = []
        while event is not None:
            kinds.append(event.kind)
            event = known.get(event.cause or "")
        return kinds

    def close(self) -> None:
        self.agent.wire.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def set_stage(run_folder: RunPaths, make_plan: Any, write_run_files: Any) -> Iterator[Callable[..., Stage]]:
    stages: list[Stage] = []

    def build(*, attempt: int = 1, resumed_from: str | None = None, **job: Any) -> Stage:
        plan = make_plan(**job)
        write_run_files(run_folder, plan, attempt=attempt, resumed_from=resumed_from)
        stages.append(Stage(run_folder, plan))
        return stages[-1]

    yield build
    for stage in stages:
        stage.close()


def finish(stage: Stage) -> None:
    """Play the agent's part from the last checkpoint to the end."""
    checkpoint = stage.agent.hear(Checkpoint)
    stage.agent.write_shards(checkpoint.step)
    stage.agent.hear(Stop)
    stage.agent.leave()
    stage.agent.hear(Shutdown)


def test_a_run_from_its_first_report_to_its_record(set_stage: Callable[..., Stage]) -> None:
    stage = set_stage(training={"stop": {"reward": 50}})
    stage.until_running()
    assert stage.paths.control_socket.stat().st_mode & 0o777 == 0o600
    stage.agent.counters = {"env_steps": 500, "episodes": 60, "updates": 7, "version": 7}
    stage.agent.rings = {
        "fragments.actor-0": RingLedger(produced=900, consumed=800, dropped_stale=50),
        "batches.0": RingLedger(produced=800, consumed=700, dropped_other=10),
    }
    stage.agent.report(returns=tuple([40.0] * 99))
    stage.agent.report(returns=(41.0,))
    view = wait_for("100 episodes", lambda: (v := stage.view()).reward.mean_100 and v)
    assert view.reward.mean_100 == pytest.approx(40.01)
    assert view.progress.env_steps == 1000, "two actors of 500 each"
    samples = view.samples
    assert (samples.produced, samples.consumed, samples.dropped_stale, samples.dropped_other) == (900, 700, 50, 10)
    assert samples.in_flight == 140
    assert view.shape.present == "L1A2"

    told_at = time.monotonic()
    stage.agent.report(returns=tuple([60.0] * 100))
    assert stage.agent.hear(Checkpoint).step == 1000
    assert time.monotonic() - told_at < 1.0
    finish(stage)
    record = stage.completion()
    assert (record.state, record.env_steps, record.updates) == (RunState.COMPLETED, 1000, 7)
    assert "reached 50" in record.reason
    folder = step_folder(stage.paths.checkpoints, 1000)
    assert record.checkpoint == str(folder)
    assert verify(folder) == []
    manifest = read_manifest(folder)
    assert (manifest.counters.updates, manifest.reward.best_mean_100) == (7, 60.0)
    assert RunView.model_validate_json(stage.paths.view.read_bytes()).state is RunState.COMPLETED
    assert not stage.paths.control_socket.exists()
    assert stage.paths.metrics.exists()
    assert list(stage.paths.tensorboard.iterdir())
    assert stage.story("checkpoint.written") == ["checkpoint.written", "checkpoint.requested", "stop.rule-met"]


def test_an_operators_checkpoint_and_stop_are_answered_at_once(set_stage: Callable[..., Stage]) -> None:
    stage = set_stage()
    early = wait_for("socket", lambda: stage.paths.control_socket.exists() and ask(
        stage.paths.control_socket, CheckpointRequest()))  # fmt: skip
    assert not early.ok
    assert "starting" in (early.error or "")
    stage.until_running()
    stage.agent.counters = {"env_steps": 50}
    stage.agent.report()
    wait_for("100 steps", lambda: stage.view().progress.env_steps == 100)
    reply = ask(stage.paths.control_socket, CheckpointRequest())
    assert (reply.ok, reply.data) == (True, {"step": 100})
    assert ask(stage.paths.control_socket, CheckpointRequest()).data == {"step": 100}, "one at a time"
    stage.agent.write_shards(stage.agent.hear(Checkpoint).step)
    stage.agent.report()
    wait_for("checkpoint", lambda: stage.view().checkpoints.last_step == 100)
    stage.agent.heard.clear()
    assert ask(stage.paths.control_socket, StopRequest(reason="enough")).data["state"] == "stopping"
    assert stage.agent.hear(Checkpoint).step == 101, "steps only rise"
    finish(stage)
    record = stage.completion()
    assert (record.state, record.reason) == (RunState.STOPPED, "enough")


def test_a_shard_that_cannot_be_written_costs_the_checkpoint_and_not_the_run(set_stage: Callable[..., Stage]) -> None:
    stage = set_stage()
    stage.until_running()
    ask(stage.paths.control_socket, CheckpointRequest())
    step = stage.agent.hear(Checkpoint).step
    note = partial_folder(stage.paths.checkpoints, step) / failure_note("learner-0", errno.ENOSPC)
    note.touch()
    stage.agent.write_shards(step)
    stage.agent.report()
    wait_for("failure", lambda: any(e.kind == "checkpoint.failed" for e in stage.events()))
    assert not partial_folder(stage.paths.checkpoints, step).exists()
    assert stage.view().state is RunState.RUNNING
    stage.agent.wire.send(AskStop(node="n1", reason="SIGTERM", checkpoint=False))
    stage.agent.hear(Stop)
    stage.agent.leave()
    stage.agent.hear(Shutdown)
    assert stage.completion().state is RunState.STOPPED


def test_a_killed_coordinator_is_replaced_and_nothing_goes_back(set_stage: Callable[..., Stage]) -> None:
    stage = set_stage(training={"stop": {"updates": 100}})
    stage.until_running()
    stage.agent.counters = {"env_steps": 500, "updates": 9, "episodes": 120}
    stage.agent.report(returns=tuple([30.0] * 120))
    wait_for("saved", lambda: b'"env_steps":1000' in stage.paths.coordinator_state.read_bytes())
    ask(stage.paths.control_socket, CheckpointRequest())
    step = stage.agent.hear(Checkpoint).step
    wait_for("saved", lambda: f'"step":{step}'.encode() in stage.paths.coordinator_state.read_bytes())
    stage.process.kill()
    stage.process.wait()
    numbers = [event.id for event in stage.events()]

    stage.process = stage.start()
    stage.agent.heard.clear()
    assert stage.agent.hear(Checkpoint).step == step, "what was under way is asked for again"
    stage.agent.write_shards(step)
    stage.agent.report()
    view = wait_for("checkpoint", lambda: (v := stage.view()).checkpoints.last_step == step and v)
    assert view.state is RunState.RUNNING
    assert (view.progress.env_steps, view.reward.mean_100) == (1000, 30.0)
    assert view.elapsed_s > 0.0
    new = [event.id for event in stage.events()][len(numbers) :]
    assert not set(new) & set(numbers), "ids of events go on"


def test_a_resumed_run_counts_on(set_stage: Callable[..., Stage], run_folder: RunPaths) -> None:
    first = set_stage(training={"stop": {"updates": 5}})
    first.until_running()
    first.agent.rings = {"fragments.actor-0": RingLedger(produced=300, consumed=300)}
    first.agent.counters = {"env_steps": 500, "updates": 5, "episodes": 100, "version": 5}
    first.agent.report(returns=tuple([30.0] * 100))
    finish(first)
    record = first.completion()
    first.close()
    elapsed = read_manifest(step_folder(run_folder.checkpoints, 1000)).elapsed_s

    second = set_stage(attempt=2, resumed_from=record.checkpoint)
    second.agent.counters = {"env_steps": 10}
    second.agent.rings = {"fragments.actor-0": RingLedger(produced=20), "batches.0": RingLedger()}
    second.until_running()
    view = second.view()
    assert (view.progress.env_steps, view.progress.updates, view.progress.episodes) == (1020, 5, 200)
    assert view.reward.mean_100 == 30.0
    assert view.reward.history, "the curve goes on"
    assert view.elapsed_s > elapsed
    assert (view.samples.produced, view.samples.dropped_other, view.samples.in_flight) == (320, 300, 20), (
        "what was in flight at the cut is lost, and said so"
    )
    assert second.agent.hear(Ack).base_env_steps == 1000


def test_agents_of_other_versions_and_names_are_refused(set_stage: Callable[..., Stage]) -> None:
    stage = set_stage()
    stage.agent.hello("0.0.0-other")
    assert "0.0.0-other" in stage.agent.hear(Refused).reason
    stranger = FakeAgent(stage.paths, stage.plan, node="n9")
    stranger.hello()
    assert "n9" in stranger.hear(Refused).reason
    stranger.wire.close()


def test_a_learner_that_cannot_be_kept_alive_fails_the_run(set_stage: Callable[..., Stage]) -> None:
    stage = set_stage()
    stage.until_running()
    told = Event(
        id="n1-7", time=stage.view().updated_at, kind="component.failed", message="spent", component="learner-0"
    )
    stage.agent.state["learner-0"] = ComponentState.FAILED
    stage.agent.report(events=(told,))
    stage.agent.hear(Stop)
    stage.agent.leave()
    stage.agent.hear(Shutdown)
    record = stage.completion()
    assert record.state is RunState.FAILED
    assert "learner-0" in record.reason
    stopping = next(e for e in stage.events() if e.kind == "run.state" and e.message.startswith("stopping"))
    cause = next(e for e in stage.events() if e.id == stopping.cause)
    assert (cause.kind, cause.component) == ("component.failed", "learner-0")


def test_sigterm_ends_the_run_in_good_order(set_stage: Callable[..., Stage]) -> None:
    stage = set_stage()
    stage.until_running()
    stage.process.send_signal(signal.SIGTERM)
    finish(stage)
    record = stage.completion()
    assert record.state is RunState.STOPPED
    assert "SIGTERM" in record.reason


MIDDLEMAN = (
    "import subprocess, sys, time; p = subprocess.Popen(sys.argv[1:]); print(p.pid, flush=True); time.sleep(600)"
)


def test_a_dead_agents_guardian_is_taken_at_its_word(set_stage: Callable[..., Stage]) -> None:
    stage = set_stage()
    stage.process.kill()
    stage.process.wait()
    command = [sys.executable, "-m", "runtime", "coordinator", str(stage.paths.root)]
    with (stage.paths.logs / "coordinator.log").open("ab") as log:
        parent = subprocess.Popen(
            [sys.executable, "-c", MIDDLEMAN, *command], stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    stage.until_running()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_for("noticed", lambda: stage.view().state is RunState.STOPPING)
    partial_folder(stage.paths.checkpoints, 77).mkdir()
    stage.agent.write_shards(77)
    stage.paths.orphaned.write_text(OrphanRecord(step=77, reason="its agent is gone").model_dump_json())
    wait_for("record", stage.paths.completion.exists)
    record = CompletionRecord.model_validate_json(stage.paths.completion.read_bytes())
    assert record.state is RunState.LOST
    assert "checkpoint 77" in record.reason
    assert verify(step_folder(stage.paths.checkpoints, 77)) == []
    wait_for("exit", lambda: not stage.paths.control_socket.exists())
    assert _gone(pid)


def _gone(pid: int) -> bool:
    def check() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
            return stat.read().rpartition(")")[2].split()[0] == "Z"

    return bool(wait_for("exit", check))
