"""A run folder as the operator's commands find it, with a coordinator that really listens, all without training."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runtime.contract.algorithm import PpoConfig
from runtime.contract.envspec import EnvSpec
from runtime.contract.files import write_whole
from runtime.contract.job import EnvConfig, Job
from runtime.contract.operator import REQUEST, CheckpointRequest, Reply, ScaleRequest, StopRequest, short_path
from runtime.contract.paths import RunPaths
from runtime.contract.plan import Fingerprints, HostPlan, Placement, Plan, Sizes
from runtime.contract.record import CompletionRecord, RunRecord
from runtime.contract.states import ComponentState, Role, RunState
from runtime.contract.view import ComponentView, Event, HostView, LinkView, Reward, RunView, Samples, ShapeView


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own."""
    monkeypatch.setenv("TIANJICTL_HOME", str(tmp_path / "home"))
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TIANJICTL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    runs = tmp_path / "home" / "runs"
    runs.mkdir(parents=True)
    return runs


@pytest.fixture
def plan() -> Plan:
    """L1A1 of CartPole on one core."""
    sizes = Sizes(
        num_envs=4,
        rollout=8,
        batch_size=64,
        fragments_per_batch=2,
        buffer_size=256,
        ring_slots=4,
        batch_slots=2,
        publish_every=1,
        staleness_tolerance=0.25,
        pool_ratio=0.25,
    )
    placements = tuple(
        Placement(name=f"{role}-0", role=role, index=0, group=0, host="localhost", cores=(0,), core_share=0.5)
        for role in (Role.ACTOR, Role.BUFFER, Role.LEARNER)
    )
    return Plan(
        shape="L1A1",
        job=Job(name="cartpole", env=EnvConfig(id="CartPole-v1"), algorithm=PpoConfig(name="ppo")),
        env=EnvSpec(id="CartPole-v1", observation_shape=(4,), num_actions=2, native_vector=True, autoreset="same-step"),
        sizes=sizes,
        hosts=(HostPlan(name="localhost", cores=(0,)),),
        placements=placements,
        fingerprints=Fingerprints(job="j", inventory="i"),
        solver="optimal",
    )


def make_view(run_id: str, **changes: object) -> RunView:
    """A running run with something in every part of the picture."""
    now = datetime.now(UTC)
    known: dict[str, object] = {
        "run_id": run_id,
        "name": "cartpole",
        "state": RunState.RUNNING,
        "reason": "every component is there",
        "shape": ShapeView(wanted="L1A1", present="L1A1"),
        "updated_at": now,
        "elapsed_s": 12.5,
        "reward": Reward(mean_100=123.4, best_mean_100=130.0, episodes=250, mean=120.0),
        "samples": Samples(produced=100, consumed=80, dropped_stale=5, dropped_other=5, in_flight=10),
        "components": tuple(
            ComponentView(
                name=f"{role}-0",
                role=role,
                host="localhost",
                pid=1,
                cores=(0,),
                state=ComponentState.RUNNING,
                heartbeat_age_s=0.1,
            )
            for role in (Role.ACTOR, Role.BUFFER, Role.LEARNER)
        ),
        "hosts": (HostView(name="localhost", state="up", heartbeat_age_s=0.1),),
        "links": (LinkView(source="localhost", target="cn01", transport="tcp", mb_per_s=100.0, state="up"),),
        "events": tuple(
            Event(id=f"e{index}", time=now, kind="run.state", message=f"[bold]event {index}[/bold]")
            for index in range(25)
        ),
    }
    return RunView.model_validate({**known, **changes})


@dataclass
class FakeRun:
    """One run folder; `serve` puts a coordinator behind its socket."""

    paths: RunPaths
    record: RunRecord
    view: RunView
    requests: list[object] = field(default_factory=list)
    on_stop: Callable[[], None] = lambda: None
    on_checkpoint: Callable[[int], None] = lambda _step: None
    on_scale: Callable[[ScaleRequest], Reply] = lambda _request: Reply(ok=False, error="not now")
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def run_id(self) -> str:
        return self.paths.run_id

    def show(self, **changes: object) -> None:
        self.view = make_view(self.run_id, **changes)

    def complete(self, state: RunState = RunState.COMPLETED, reason: str = "mean return 475 reached") -> None:
        done = CompletionRecord(
            run_id=self.run_id,
            attempt=self.record.attempt,
            state=state,
            reason=reason,
            ended_at=datetime.now(UTC),
            env_steps=1000,
            updates=10,
        )
        write_whole(self.paths.completion, done.model_dump_json())

    def write_view(self, age_s: float = 0.0) -> None:
        aged = self.view.model_copy(update={"updated_at": datetime.now(UTC) - timedelta(seconds=age_s)})
        write_whole(self.paths.view, aged.model_dump_json())

    def hold_agent_lock(self) -> None:
        """As if an agent lived: this process holds the lock, with a pid that exists and carries no run id."""
        sleeper = self.process({})
        descriptor = os.open(self.paths.agent_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, f"{sleeper.pid}\n".encode())
        self._stack.callback(os.close, descriptor)

    def process(self, environment: dict[str, str], code: str = "import time; time.sleep(60)") -> subprocess.Popen[str]:
        """A process of the test, ended with it; it has said that it is there before this returns."""
        started = subprocess.Popen(
            [sys.executable, "-c", f"print('here', flush=True); {code}"],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._stack.callback(_end, started)
        assert started.stdout is not None
        assert started.stdout.readline() == "here\n"
        return started

    def serve(self) -> None:
        """Answer on the run's control socket until the test ends."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with short_path(self.paths.control_socket) as name:
            listener.bind(name)
        listener.listen()
        thread = threading.Thread(target=self._accept, args=(listener,))
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(listener.shutdown, socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        with listener:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:  # the test is over
                    return
                with connection, connection.makefile("rb") as lines:
                    reply = self._answer(lines.readline())
                    with contextlib.suppress(OSError):
                        connection.sendall(reply.model_dump_json().encode() + b"\n")

    def _answer(self, line: bytes) -> Reply:
        request = REQUEST.validate_json(line)
        self.requests.append(request)
        if isinstance(request, StopRequest):
            self.on_stop()
            return Reply(ok=True)
        if isinstance(request, CheckpointRequest):
            self.on_checkpoint(128)
            return Reply(ok=True, data={"step": 128})
        if isinstance(request, ScaleRequest):
            return self.on_scale(request)
        return Reply(ok=True, data=self.view.model_dump(mode="json"))

    def close(self) -> None:
        self._stack.close()


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.fixture
def make_run(home: Path, plan: Plan) -> Iterator[Callable[..., FakeRun]]:
    """Makes run folders: `make_run(name=…, minutes_ago=…)`."""
    made: list[FakeRun] = []

    def make(name: str = "cartpole", minutes_ago: float = 1.0) -> FakeRun:
        created = datetime.now(UTC) - timedelta(minutes=minutes_ago)
        paths = RunPaths(home / f"{name}-{created:%Y%m%d-%H%M%S}-{len(made):04x}")
        for folder in (paths.root, paths.logs, paths.checkpoints):
            folder.mkdir(mode=0o700)
        record = RunRecord(
            run_id=paths.run_id, name=name, created_at=created, user="me", host="here", argv=("launch",), version="1"
        )
        write_whole(paths.record, record.model_dump_json())
        write_whole(paths.plan, plan.model_dump_json())
        write_whole(paths.job, plan.job.model_dump_json())
        run = FakeRun(paths, record, make_view(paths.run_id))
        made.append(run)
        return run

    yield make
    for run in made:
        run.close()


@pytest.fixture
def run(make_run: Callable[..., FakeRun]) -> FakeRun:
    """One run that nobody answers for yet."""
    return make_run()


@pytest.fixture
def tianjictl(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs one command line in this process: (exit code, standard output, standard error)."""
    from tianjictl.cli.main import main

    def call(*words: str) -> tuple[int, str, str]:
        code = main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
