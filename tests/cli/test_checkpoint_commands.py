"""Checkpoints as the operator meets them: written on demand, listed, verified, pruned, resumed from, played."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from runtime.checkpoint.manifest import Manifest
from runtime.checkpoint.partial import PartialCheckpoint
from runtime.checkpoint.shard import save_shard
from runtime.contract.record import RunRecord
from runtime.contract.states import RunState
from tianjictl.launching.agent import AgentProcess
from tianjictl.runs.registry import open_run

FAKE = Path(__file__).with_name("fake_agent.py")


def write_checkpoint(run, step: int) -> Path:
    partial = PartialCheckpoint(run.paths.checkpoints, step)
    save_shard(partial.folder, "learner-0", {"params": np.arange(64, dtype=np.float32)}, {})
    about = Manifest(
        run_id=run.run_id, name="cartpole", step=step, created_at=datetime.now(UTC), shape="L1A1", job_digest="d"
    )
    return partial.complete(about, ["learner-0"])


def flip_a_byte(folder: Path) -> None:
    shard = folder / "learner-0.safetensors"
    raw = bytearray(shard.read_bytes())
    raw[-1] ^= 1
    shard.write_bytes(raw)


@pytest.fixture
def saved(run):
    """A stopped run with checkpoints of steps 100, 200 and 300."""
    for step in (100, 200, 300):
        write_checkpoint(run, step)
    run.write_view()
    run.complete(RunState.STOPPED, "asked")
    return run


@pytest.fixture
def agents(monkeypatch):
    """Resuming starts agents that only pretend."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> AgentProcess:
        made = AgentProcess.start([sys.executable, str(FAKE), "ok"])
        started.append(made._process)
        return made

    monkeypatch.setattr("tianjictl.cli.resume.AgentProcess", type("Fake", (), {"start": staticmethod(start)}))
    yield started
    for process in started:
        process.returncode = None  # `release` has declared it nobody's business, but here it is ours to end
        process.kill()
        process.wait()


def test_checkpoint_waits_until_the_folder_is_whole(run, tianjictl):
    run.serve()
    run.on_checkpoint = lambda step: write_checkpoint(run, step)
    code, out, err = tianjictl("checkpoint", "--json")
    assert code == 0, err
    data = json.loads(out)["data"]
    assert data["step"] == 128
    assert (Path(data["path"]) / "manifest.json").exists()


def test_checkpoint_of_a_run_that_ends_first_is_an_error(run, tianjictl):
    run.serve()
    run.on_checkpoint = lambda _step: run.complete(RunState.FAILED, "out of memory")
    code, _, err = tianjictl("checkpoint")
    assert code == 11
    assert "out of memory" in err


def test_checkpoint_that_takes_too_long_times_out(run, tianjictl):
    run.serve()
    assert tianjictl("checkpoint", "--timeout", "300ms")[0] == 124


@pytest.mark.usefixtures("saved")
def test_the_list_is_newest_first(tianjictl):
    listed = json.loads(tianjictl("checkpoints", "--json")[1])["data"]["checkpoints"]
    assert [item["step"] for item in listed] == [300, 200, 100]
    assert all(item["complete"] for item in listed)


def test_verify_names_the_damaged_one_and_ends_with_11(saved, tianjictl):
    assert tianjictl("checkpoints", "verify")[0] == 0
    flip_a_byte(saved.paths.checkpoints / "step-000000000300")
    code, out, _ = tianjictl("checkpoints", "verify", saved.run_id)
    assert code == 11
    assert "learner-0.safetensors is damaged" in out
    assert f"1 of 3 damaged; tianjictl resume {saved.run_id} --from-checkpoint passes over them" in out


@pytest.mark.usefixtures("saved")
def test_verify_says_what_it_has_done(tianjictl):
    code, out, _ = tianjictl("checkpoints", "verify")
    assert code == 0
    assert out.splitlines()[-1] == "verified: every byte of all 3 checkpoints is as it was written"
    assert [line.split()[1] for line in out.splitlines()[1:4]] == ["verified"] * 3


def test_the_list_knows_what_verify_has_found_until_a_file_changes(saved, tianjictl):
    def states() -> list[str]:
        return [line.split()[1] for line in tianjictl("checkpoints")[1].splitlines()[1:4]]

    newest = saved.paths.checkpoints / "step-000000000300"
    assert states() == ["complete"] * 3
    flip_a_byte(newest)
    tianjictl("checkpoints", "verify")
    assert states() == ["damaged", "verified", "verified"]
    flip_a_byte(newest)  # which mends it
    assert states() == ["complete", "verified", "verified"]
    tianjictl("checkpoints", "verify")
    assert states() == ["verified"] * 3
    shutil.rmtree(newest)
    assert states()[0] == "verified"


@pytest.mark.usefixtures("saved")
def test_prune_asks_and_keeps_the_newest(tianjictl):
    assert tianjictl("checkpoints", "prune", "--keep", "2")[0] == 2
    code, out, _ = tianjictl("checkpoints", "prune", "--keep", "2", "--yes", "--json")
    assert code == 0
    assert [Path(path).name for path in json.loads(out)["data"]["removed"]] == ["step-000000000100"]


@pytest.mark.usefixtures("agents")
def test_resume_passes_over_a_damaged_checkpoint_and_says_so(saved, tianjictl):
    flip_a_byte(saved.paths.checkpoints / "step-000000000300")
    code, out, err = tianjictl("resume", "--from-checkpoint", "-d", "--json")
    assert code == 0, err
    assert "step-000000000300" in err
    assert "continuing" in err
    assert json.loads(out)["data"]["attempt"] == 2
    order = json.loads((saved.paths.root / "order.json").read_text())
    assert order["resume_from"] == str(saved.paths.checkpoints / "step-000000000200")


@pytest.mark.usefixtures("agents")
def test_resume_counts_the_attempt_and_keeps_how_the_last_one_ended(saved, tianjictl):
    assert tianjictl("resume", saved.run_id, "--from-checkpoint", "100", "-d")[0] == 0
    record = RunRecord.model_validate_json(saved.paths.record.read_bytes())
    assert record.attempt == 2
    assert (record.resumed_from or "").endswith("step-000000000100")
    assert (saved.paths.root / "completed.1.json").exists()
    assert open_run(saved.paths.root).completion() is None


def test_resume_of_a_living_run_is_refused(saved, agents, tianjictl, monkeypatch):
    monkeypatch.setattr("tianjictl.cli.resume._LEAVE_WITHIN_S", 0.3)
    saved.hold_agent_lock()
    code, _, err = tianjictl("resume", "--from-checkpoint")
    assert code == 9
    assert "is alive" in err
    assert agents == []


def test_resume_never_starts_from_scratch(run, agents, tianjictl):
    run.complete(RunState.STOPPED, "asked")
    code, _, err = tianjictl("resume", "--from-checkpoint")
    assert code == 11
    assert "no complete checkpoint" in err
    assert agents[0].poll() is not None
    assert RunRecord.model_validate_json(run.paths.record.read_bytes()).attempt == 1
    assert run.paths.completion.exists()


@pytest.mark.parametrize(
    ("value", "code"), [(["--from-checkpoint", "150"], 11), (["--from-checkpoint", "/nowhere"], 11), ([], 2)]
)
@pytest.mark.usefixtures("saved", "agents")
def test_resume_needs_a_checkpoint_that_exists(tianjictl, value, code):
    assert tianjictl("resume", *value)[0] == code


@pytest.mark.usefixtures("agents")
def test_resume_by_step_of_a_damaged_checkpoint_is_refused(saved, tianjictl):
    flip_a_byte(saved.paths.checkpoints / "step-000000000200")
    code, _, err = tianjictl("resume", "--from-checkpoint", "200")
    assert code == 11
    assert "damaged" in err


@pytest.mark.usefixtures("agents")
def test_resume_of_a_completed_run_needs_a_yes(saved, tianjictl):
    saved.complete()
    code, _, err = tianjictl("resume", "--from-checkpoint")
    assert code == 2
    assert "pass --yes" in err
    assert tianjictl("resume", "--from-checkpoint", "--yes", "-d")[0] == 0


def test_a_failing_tool_is_told_with_its_own_code(saved, tianjictl):
    shutil.rmtree(saved.paths.checkpoints)
    code, _, err = tianjictl("eval", saved.run_id)
    assert code == 11
    assert "no complete checkpoint" in err
    assert f"hint: tianjictl checkpoint {saved.run_id} writes one" in err


def test_a_damaged_checkpoint_to_play_is_told_with_what_can_be_played_instead(saved, tianjictl):
    newest = saved.paths.checkpoints / "step-000000000300"
    (newest / "manifest.json").write_text("{")
    code, _, err = tianjictl("eval", str(newest))
    assert code == 11
    assert "hint: name another checkpoint, or a run" in err


def test_eval_shows_what_the_runtime_answers(saved, tianjictl, monkeypatch):
    asked = []

    def answer(words: list[str]) -> dict[str, object]:
        asked.append(json.loads(words[1]))
        returns = {"mean": 480.5, "std": 2.0, "min": 470.0, "max": 500.0}
        return {"episodes": 3, "seed": 7, "version": 9, "return": returns}

    monkeypatch.setattr("tianjictl.cli.eval.runtime_tool", answer)
    code, out, _ = tianjictl("eval", "--episodes", "3", "--seed", "7", "--json")
    assert code == 0
    data = json.loads(out)["data"]
    assert data["return"] == {"mean": 480.5, "std": 2.0, "min": 470.0, "max": 500.0}
    newest = str(saved.paths.checkpoints / "step-000000000300")
    assert asked == [{"checkpoint": newest, "episodes": 3, "seed": 7}]
    assert "mean 480.50" in tianjictl("eval", newest)[1]


def test_a_run_that_has_ended_is_asked_for_no_checkpoint(saved, tianjictl):
    saved.complete(RunState.STOPPED, "by hand")
    saved.write_view()
    code, _, err = tianjictl("checkpoint")
    assert code == tianjictl("scale", saved.run_id, "L1A2", "--yes")[0] == 2
    assert "is not running (stopped: by hand)" in err
    assert f"hint: tianjictl checkpoints {saved.run_id}" in err


def test_keep_without_prune_is_refused(saved, tianjictl):
    code, _, err = tianjictl("checkpoints", "verify", saved.run_id, "--keep", "1")
    assert code == 2
    assert f"hint: tianjictl checkpoints prune {saved.run_id} --keep 1" in err
