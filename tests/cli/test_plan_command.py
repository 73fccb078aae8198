"""`tianjictl plan` against a run that is there: what is shown, in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

JOB = """
name: cartpole
env: {id: CartPole-v1}
algorithm: {name: ppo}
distributed: {oversubscribe: true, actors: 1, learners: 1}
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(JOB)
    return "job.yaml"


def test_a_plan_against_a_run_says_what_differs_and_what_to_type(tianjictl, run, job):
    run.serve()
    words = ("plan", job, "--set", "training.seed=3", "--against", run.run_id)
    code, out, _ = tianjictl(*words)
    assert code == 0
    told = out[out.index(f"against {run.run_id}: L1A1 → L1A1") :]
    assert "~ num_envs 4 → 64" in told
    assert "~ training.seed 0 → 3" in told
    assert "a run keeps its job for good" in told
    assert f"  tianjictl stop {run.run_id}\n  tianjictl launch job.yaml --set training.seed=3\n" in told


def test_the_difference_is_in_the_json_document_too(tianjictl, run, job):
    run.serve()
    code, out, _ = tianjictl("plan", job, "--set", "training.seed=3", "--against", "cartpole", "--json")
    found = json.loads(out)["data"]["difference"]
    assert code == 0
    assert found["run_id"] == run.run_id
    assert found["way"] == "launch"
    assert {"key": "training.seed", "before": 0, "after": 3, "kept_by": "resume"} in found["job"]
    assert found["commands"][0] == f"tianjictl stop {run.run_id}"


def test_a_run_of_the_same_name_that_lives_is_mentioned_in_one_line(tianjictl, run, job):
    run.hold_agent_lock()
    code, out, err = tianjictl("plan", job)
    assert code == 0
    assert "against" not in out
    (line,) = [line for line in err.splitlines() if "is alive" in line]
    assert f"tianjictl plan job.yaml --against {run.run_id}" in line


def test_a_run_that_does_not_live_is_not_mentioned(tianjictl, run, job):
    run.complete()
    assert "alive" not in tianjictl("plan", job)[2]


def test_a_run_that_is_over_has_no_difference_but_a_way_to_go_on(tianjictl, run, job):
    run.complete()
    code, _, err = tianjictl("plan", job, "--against", "cartpole")
    assert code == 2
    assert "is over (completed" in err
    assert f"hint: tianjictl resume {run.run_id} --from-checkpoint" in err


def test_what_does_not_fit_comes_with_a_request_that_does_to_copy(tianjictl, job):
    words = ("plan", job, "--shape", "L9999A9999", "--set", "distributed.oversubscribe=false")
    code, _, err = tianjictl(*words)
    assert code == 3
    assert "error: L9999A9999 needs 19998 cores" in err
    hint = err[err.index("hint:") :]
    command = hint[hint.index("tianjictl plan job.yaml --shape L") :].partition(";")[0].strip()
    assert command.endswith("--set distributed.oversubscribe=false")
    again = tuple(command.split()[1:])
    assert tianjictl(*again)[0] == 0, "the request that was offered fits"
