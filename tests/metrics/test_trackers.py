"""Runs in MLflow and Weights & Biases, through their own clients; and what a job may say of them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from runtime.contract.files import write_whole
from runtime.contract.job import needed_modules
from runtime.contract.paths import RunPaths
from runtime.contract.record import CompletionRecord, RunRecord
from runtime.contract.states import RunState
from runtime.metrics.opening import open_sinks
from runtime.metrics.settings import settings_of
from support.plans import make_job, make_plan
from tianjictl.errors import DoctorFailed, UsageProblem
from tianjictl.launching import trackers
from tianjictl.launching.trackers import refuse_head_without_trackers, refuse_missing_trackers
from tianjictl.remote.local import LocalConnection

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.contract.plan import Plan

needs_mlflow = pytest.mark.skipif(find_spec("mlflow") is None, reason="mlflow is not installed (tianjictl[mlflow])")
needs_wandb = pytest.mark.skipif(find_spec("wandb") is None, reason="wandb is not installed (tianjictl[wandb])")
NOBODY = "http://127.0.0.1:9"  #: the discard port, where nobody listens


def folder_of(tmp_path: Path, plan: Plan, attempt: int = 1) -> RunPaths:
    paths = RunPaths(tmp_path / "test-20260101-000000-abcd")
    for folder in (paths.root, paths.logs):
        folder.mkdir(exist_ok=True)
    record = RunRecord(
        run_id=paths.run_id, name="test", created_at=datetime.now(UTC), user="u", host="h", argv=("t",), version="0",
        attempt=attempt,
    )  # fmt: skip
    write_whole(paths.record, record.model_dump_json())
    write_whole(paths.plan, plan.model_dump_json())
    return paths


def train(paths: RunPaths, plan: Plan, steps: tuple[int, ...], ending: RunState | None, attempt: int = 1) -> None:
    """What a coordinator does in one attempt, as far as metrics go."""
    sinks = open_sinks(paths, plan, close_within_s=100.0)  # the clients are slow to load on a busy machine
    for step in steps:
        sinks.write(step, {"reward/mean_100": step / 10, "learner/learner-0/loss": 1.0}, time_s=1.7e9 + step)
    if ending is not None:
        done = CompletionRecord(
            run_id=paths.run_id, attempt=attempt, state=ending, reason="", ended_at=datetime.now(UTC), env_steps=1,
            updates=1,
        )  # fmt: skip
        write_whole(paths.completion, done.model_dump_json())
    sinks.close()


@needs_mlflow
def test_a_run_and_its_resumption_are_one_run_in_mlflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    uri = f"file://{tmp_path}/mlruns"
    plan = make_plan(make_job(metrics={"mlflow": {"tracking_uri": uri, "experiment": "cartpole"}}))
    train(folder_of(tmp_path, plan), plan, (100, 200), ending=None)
    wider = plan.model_copy(update={"shape": "L1A2"})
    train(folder_of(tmp_path, wider, attempt=2), wider, (300,), RunState.COMPLETED, attempt=2)
    assert "metrics." not in capfd.readouterr().err

    [run] = (tmp_path / "mlruns").glob("*/*/meta.yaml")
    root = run.parent
    assert "status: 3" in run.read_text(), "finished"
    points = [line.split() for line in (root / "metrics/reward/mean_100").read_text().splitlines()]
    assert [(float(value), int(step)) for _, value, step in points] == [(10.0, 100), (20.0, 200), (30.0, 300)]
    assert (root / "params/algorithm.rollout").read_text() == "8"
    assert (root / "params/shape").read_text() == "L1A1", "as it began"
    assert (root / "tags/tianji.run_id").read_text() == "test-20260101-000000-abcd"


@needs_mlflow
def test_a_server_that_is_not_there_costs_the_run_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"MAX_RETRIES": "0", "TIMEOUT": "2"}.items():
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", value)
    plan = make_plan(make_job(metrics={"mlflow": {"tracking_uri": NOBODY}}))
    paths = folder_of(tmp_path, plan)
    train(paths, plan, (100, 200), RunState.COMPLETED)
    assert len(paths.metrics.read_text().splitlines()) == 2
    assert "metrics.failed sink=mlflow" in capfd.readouterr().err


@needs_wandb
def test_an_offline_run_of_wandb_lies_in_the_runs_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    plan = make_plan(make_job(metrics={"wandb": {"project": "cartpole", "mode": "offline"}}))
    paths = folder_of(tmp_path, plan)
    train(paths, plan, (100, 200), RunState.COMPLETED)
    assert "metrics." not in capfd.readouterr().err
    [log] = (paths.root / "wandb").rglob("*.wandb")
    content = log.read_bytes()
    assert b"reward/mean_100" in content
    assert b"algorithm" in content


def test_a_job_that_names_no_tool_starts_and_needs_nothing(tmp_path: Path) -> None:
    plan = make_plan(make_job())
    assert needed_modules(plan.job) == ()
    refuse_missing_trackers(plan.job)
    paths = folder_of(tmp_path, plan)
    train(paths, plan, (100,), RunState.COMPLETED)
    assert sorted(path.name for path in paths.root.iterdir() if path.is_dir()) == ["logs", "tensorboard"]


@pytest.mark.parametrize(
    ("metrics", "why"),
    [
        ({"mlflow": {"tracking_uri": "mlruns"}}, "whole URI"),
        ({"mlflow": {"tracking_uri": "https://me:secret@example.org"}}, "must hold no password"),
        ({"wandb": {"project": ""}}, "at least 1"),
        ({"wandb": {"project": "x", "mode": "sometimes"}}, "online"),
        ({"wandb": {"project": "x", "api_key": "secret"}}, "[Ee]xtra"),
    ],
)
def test_a_job_holds_no_secret_and_says_where_exactly(metrics: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        make_job(metrics=metrics)


def test_a_missing_client_is_named_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda _name: None)
    job = make_job(metrics={"mlflow": {"tracking_uri": NOBODY}, "wandb": {"project": "x"}})
    with pytest.raises(UsageProblem) as caught:
        refuse_missing_trackers(job)
    assert "lacks mlflow and wandb, which the job asks for by metrics.mlflow and metrics.wandb" in caught.value.message
    assert caught.value.hint == f"{sys.executable} -m pip install mlflow-skinny wandb"


def test_a_head_without_the_client_cannot_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job(metrics={"mlflow": {"tracking_uri": NOBODY}})
    with LocalConnection("cn01") as connection:
        monkeypatch.setattr(trackers, "needed_modules", lambda _job: ("nosuchmodule",))
        monkeypatch.setitem(trackers._DISTRIBUTIONS, "nosuchmodule", "nosuch")
        with pytest.raises(DoctorFailed) as caught:
            refuse_head_without_trackers(job, "cn01", sys.executable, connection)
        assert "cn01: check: " in caught.value.message
        assert "lacks nosuchmodule" in caught.value.message
        assert caught.value.hint == f"on cn01: {sys.executable} -m pip install nosuch"
        monkeypatch.setattr(trackers, "needed_modules", lambda _job: ("json",))
        refuse_head_without_trackers(job, "cn01", sys.executable, connection)


def test_settings_are_what_runs_differ_by() -> None:
    settings = settings_of(make_plan(make_job(training={"seed": 7})))
    assert settings["env.id"] == "CartPole-v1"
    assert settings["training.seed"] == 7
    assert settings["shape"] == "L1A1"
    assert isinstance(settings["sizes.batch_size"], int), "what auto became"
    assert "auto" not in settings.values()
    assert all(isinstance(value, bool | int | float | str) for value in settings.values())
    assert not [name for name in settings if name.startswith(("health", "metrics", "checkpoint"))]
