"""A launch ends with a run in which everything reported, or with nothing at all."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime.contract.order import AgentOrder
from runtime.contract.record import CompletionRecord, RunRecord
from tianjictl.cli import launch as launch_command
from tianjictl.errors import Infeasible
from tianjictl.launching import start
from tianjictl.launching.agent import AgentProcess
from tianjictl.launching.folder import hide_secrets
from tianjictl.runs.processes import everything_of
from tianjictl.runs.registry import list_runs

FAKE = Path(__file__).with_name("fake_agent.py")


@pytest.fixture
def agent(monkeypatch, plan):
    """Chooses how the agent behaves, and lets the launch use a ready plan."""
    started: list[subprocess.Popen[bytes]] = []

    def behave(mode: str) -> list[subprocess.Popen[bytes]]:
        def start(*_words: object) -> AgentProcess:
            made = AgentProcess.start([sys.executable, str(FAKE), mode])
            started.append(made._process)
            return made

        monkeypatch.setattr(launch_command, "AgentProcess", type("Fake", (), {"start": staticmethod(start)}))
        monkeypatch.setattr("tianjictl.cli.resume.AgentProcess", type("Fake", (), {"start": staticmethod(start)}))
        monkeypatch.setattr(launch_command, "_plan", lambda *_args: plan)
        return started

    yield behave
    for process in started:
        process.returncode = None  # `release` has declared it nobody's business, but here it is ours to end
        process.kill()
        process.wait()


def test_a_detached_launch_answers_with_the_run_id_of_a_run_that_is_up(agent, tianjictl):
    agent("ok")
    code, out, err = tianjictl("launch", "job.yaml", "-d", "--json")
    assert code == 0, err
    data = json.loads(out)["data"]
    [run] = list_runs()
    assert data["run_id"] == run.run_id
    assert run.run_id.startswith("cartpole-")
    assert run.agent_pid() is not None
    assert run.paths.root.stat().st_mode & 0o777 == 0o700
    assert RunRecord.model_validate_json(run.paths.record.read_bytes()).attempt == 1
    assert AgentOrder.model_validate_json(run.paths.order.read_bytes()) == AgentOrder(run=str(run.paths.root))


def test_a_second_launch_of_a_living_name_is_refused_and_changes_nothing(agent, tianjictl):
    agent("ok")
    assert tianjictl("launch", "job.yaml", "-d")[0] == 0
    code, _, err = tianjictl("launch", "job.yaml", "-d")
    assert code == 9
    assert "a run named cartpole is alive" in err
    assert len(list_runs()) == 1
    assert tianjictl("launch", "job.yaml", "-d", "--name", "another")[0] == 0


@pytest.mark.parametrize(
    ("mode", "code", "text"),
    [
        ("refuse", 1, "no memory for the rings"),
        ("die", 1, "a library is missing"),
        ("fails", 6, "restart budget spent"),
    ],
)
def test_a_launch_that_fails_leaves_no_process_and_says_why(agent, tianjictl, mode, code, text):
    started = agent(mode)
    answer = tianjictl("launch", "job.yaml", "-d")
    assert answer[0] == code
    assert text in answer[2]
    [run] = list_runs()
    assert everything_of(run) == []
    assert started[0].poll() is not None
    ended = CompletionRecord.model_validate_json(run.paths.completion.read_bytes())
    assert ended.state == "failed"
    assert "could not be started" in ended.reason
    assert tianjictl("status", "--json")[1].count("could not be started") == 1


def test_components_that_never_report_are_named_with_their_last_words(agent, tianjictl, monkeypatch):
    agent("silent")
    monkeypatch.setattr("tianjictl.launching.start.UP_WITHIN_S", 2.0)
    code, _, err = tianjictl("launch", "job.yaml", "-d")
    assert code == 124
    assert "learner-0 starting" in err
    assert "learner-0.1: RuntimeError: no such device" in err
    assert everything_of(list_runs()[0]) == []


def test_a_plan_that_cannot_be_made_leaves_neither_agent_nor_folder(agent, tianjictl, monkeypatch):
    started = agent("ok")

    def infeasible(*_args: object) -> None:
        raise Infeasible("L9A9 needs 18 cores and there are 2", hint="L1A1 fits")

    monkeypatch.setattr(launch_command, "_plan", infeasible)
    code, _, err = tianjictl("launch", "job.yaml")
    assert code == 3
    assert err.endswith("hint: L1A1 fits\n")
    assert started[0].poll() is not None
    assert list_runs() == []


def test_a_dry_run_touches_nothing(agent, tianjictl, home):
    started = agent("ok")
    shutil.rmtree(home.parent)
    code, out, _ = tianjictl("launch", "job.yaml", "--dry-run")
    assert code == 0
    assert "would start cartpole as L1A1" in out
    assert "learner-0" in out
    assert started == []
    assert not home.parent.exists()


def test_a_folder_that_cannot_be_written_is_named(agent, tianjictl, monkeypatch, tmp_path):
    agent("ok")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TIANJICTL_HOME", str(tmp_path / "file"))
    code, _, err = tianjictl("launch", "job.yaml")
    assert code == 2
    assert "runs cannot be kept in" in err
    assert "TIANJICTL_HOME" in err


def test_a_disk_without_room_is_refused_before_anything_starts(agent, tianjictl, monkeypatch):
    agent("ok")
    full = shutil._ntuple_diskusage(10**9, 10**9, 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: full)
    code, _, err = tianjictl("launch", "job.yaml")
    assert code == 5
    assert "0 MiB free" in err
    assert list_runs() == []


def test_a_name_that_is_no_folder_name_is_refused(tianjictl):
    assert tianjictl("launch", "job.yaml", "--name", "../evil")[0] == 2


def test_what_cannot_be_is_said_before_any_host_is_reached(tianjictl, tmp_path):
    hosts = tmp_path / "two.yaml"
    hosts.write_text("all:\n  hosts:\n    a: {ansible_host: 192.0.2.1}\n    b: {ansible_host: 192.0.2.2}\n")
    words = ("--env", "CartPole-v1", "--algo", "ppo", "-i", str(hosts))
    for command in ("launch", "plan"):
        code, _, err = tianjictl(command, *words, "--shape", "L0A4")
        assert code == 2
        assert "L0A4: a shape has at least one learner, and an actor for each" in err
    code, _, err = tianjictl("launch", *words, "--in-process")
    assert code == 2
    assert f"the hosts of {hosts} do not go with it" in err
    assert "TIANJICTL_INVENTORY" in err


def test_secrets_on_the_command_line_are_not_kept():
    assert hide_secrets(["--set", "env.kwargs.api_key=abc", "--set", "training.seed=3"]) == [
        "--set",
        "env.kwargs.api_key=***",
        "--set",
        "training.seed=3",
    ]


@pytest.mark.parametrize("mode", ["silent", "deaf"])
def test_ctrl_c_while_starting_takes_everything_down_at_once(agent, tianjictl, monkeypatch, mode):
    started = agent(mode)

    def interrupted(*_args: object, **_kwargs: object) -> None:
        raise KeyboardInterrupt

    if mode == "silent":
        monkeypatch.setattr("tianjictl.launching.start.wait_until_up", interrupted)
    else:
        monkeypatch.setattr(AgentProcess, "hand_over", interrupted)
    began = time.monotonic()
    code, _, err = tianjictl("launch", "job.yaml")
    assert code == 130
    assert time.monotonic() - began < 45.0  # an agent is given longer
    [run] = list_runs()
    assert f"error: interrupted; what had been started of {run.run_id} is taken down again" in err
    assert started[0].poll() is not None
    assert everything_of(run) == []
    ended = CompletionRecord.model_validate_json(run.paths.completion.read_bytes())
    assert (ended.state, ended.reason) == ("stopped", "interrupted while it was being started")


def test_ctrl_c_twice_while_starting_leaves_nothing_and_is_told_as_what_it_was(agent, tianjictl, monkeypatch):
    started = agent("silent")
    really, reasons = start.stop_run, []

    def interrupted(*_args: object, **_kwargs: object) -> None:
        raise KeyboardInterrupt

    def stop(run, **how):
        reasons.append(how["reason"])
        if len(reasons) == 1:  # while it was taking down what there was
            raise KeyboardInterrupt
        return really(run, **how)

    monkeypatch.setattr(start, "wait_until_up", interrupted)
    monkeypatch.setattr(start, "stop_run", stop)
    code, _, err = tianjictl("launch", "job.yaml")
    [run] = list_runs()
    assert code == 130
    assert f"error: interrupted; what had been started of {run.run_id} is taken down again" in err
    assert started[0].poll() is not None
    assert everything_of(run) == []
    assert set(reasons) == {"interrupted while it was being started"}
    ended = CompletionRecord.model_validate_json(run.paths.completion.read_bytes())
    assert (ended.state, ended.reason) == ("stopped", "interrupted while it was being started")


def test_an_environment_that_fails_in_process_is_a_failed_run(tianjictl, tmp_path, monkeypatch):
    (tmp_path / "breaks.py").write_text(
        "import gymnasium\n"
        "class Breaks(gymnasium.Wrapper):\n"
        "    steps = 0\n"
        "    def step(self, action):\n"
        "        self.steps += 1\n"
        "        if self.steps > 50: raise RuntimeError('the arm hit the table')\n"
        "        return super().step(action)\n"
        "def make(): return Breaks(gymnasium.make('CartPole-v1'))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code, out, err = tianjictl("launch", "--env", "breaks:make", "--algo", "ppo", "--in-process", "--json",
                               "--set", "distributed.oversubscribe=true")  # fmt: skip
    assert code == 6
    assert json.loads(out)["errors"][0]["code"] == 6
    assert "the arm hit the table" in err
    data = json.loads(tianjictl("status", "--json")[1])["data"]
    assert data["state"] == "failed"
    assert "the arm hit the table" in data["reason"]
    assert data["progress"]["env_steps"] > 0


def test_a_run_in_process_ends_with_one_document_and_its_numbers(tianjictl):
    code, out, err = tianjictl("launch", "--env", "CartPole-v1", "--algo", "ppo", "--in-process", "--json",
                               "--set", "training.stop.updates=1", "--oversubscribe")  # fmt: skip
    assert code == 0, err
    data = json.loads(out)["data"]
    assert data["updates"] == 1
    seen = json.loads(tianjictl("status", data["run_id"], "--json")[1])["data"]
    assert (seen["state"], seen["progress"]["env_steps"]) == ("completed", data["env_steps"])
