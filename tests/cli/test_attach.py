"""Following a run: 0 only for a completed one, and Ctrl-C that never surprises."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from runtime.contract.states import RunState
from runtime.contract.view import Checkpoints
from tianjictl.cli.keys import CtrlC


def test_a_completed_run_ends_with_0_and_one_line(run, tianjictl):
    run.write_view()
    run.complete()
    code, out, _ = tianjictl("attach")
    assert code == 0
    assert out.startswith("completed cartpole in 12.5 s: mean return 123.4")
    assert "mean return 475 reached" in out


def test_json_of_a_completed_run_is_one_document(run, tianjictl):
    run.write_view()
    run.complete()
    assert json.loads(tianjictl("attach", "--json")[1])["data"]["state"] == "completed"


@pytest.mark.parametrize(("state", "code"), [(RunState.FAILED, 6), (RunState.STOPPED, 1)])
def test_a_run_that_did_not_complete_is_an_error_with_the_way_on(run, tianjictl, state, code):
    run.show(checkpoints=Checkpoints(last_step=5, last_age_s=10.0, complete=1))
    run.write_view()
    run.complete(state, "because")
    answer = tianjictl("attach")
    assert answer[0] == code
    assert "because" in answer[2]
    assert f"resume {run.run_id} --from-checkpoint" in answer[2]


def test_a_lost_run_is_never_reported_as_completed(run, tianjictl):
    run.show(state=RunState.COMPLETED, reason="says an old view, but there is no completion record")
    run.write_view()
    code, out, err = tianjictl("attach")
    assert (code, out) == (6, "")
    assert "lost" in err


def test_one_press_shows_and_a_second_within_two_seconds_stops():
    presses = CtrlC()
    assert presses.decide() is None
    presses.press(10.0)
    assert presses.decide() == "show"
    presses.press(12.5)
    assert presses.decide() == "show"
    presses.press(14.0)
    assert presses.decide() == "stop"


def test_two_presses_before_anyone_looks_stop():
    presses = CtrlC()
    presses.press(10.0)
    presses.press(10.1)
    assert presses.decide() == "stop"


def test_ctrl_c_once_shows_the_status_and_twice_stops_the_run(run):
    worker = run.process({"TIANJI_RUN_ID": run.run_id})
    run.serve()
    run.on_stop = lambda: (run.complete(RunState.STOPPED, "Ctrl-C"), worker.kill(), worker.wait())
    attached = subprocess.Popen(
        [sys.executable, "-m", "tianjictl.cli.main", "attach"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert attached.stderr is not None
        assert attached.stderr.readline().startswith("running 12.5 s")
        attached.send_signal(signal.SIGINT)
        assert attached.stderr.readline().startswith("running")
        assert "again within 2 s to stop" in attached.stderr.readline()
        assert worker.poll() is None
        attached.send_signal(signal.SIGINT)
        _, err = attached.communicate(timeout=60)
    finally:
        attached.kill()
        attached.communicate()
    assert attached.returncode == 130
    assert f"stopped {run.run_id}, as Ctrl-C was pressed twice" in err


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.STOPPED])
def test_a_run_without_a_checkpoint_is_not_told_to_go_on_from_one(run, tianjictl, state):
    run.write_view()
    run.complete(state, "because")
    err = tianjictl("attach")[2]
    assert "resume" not in err
    assert "launch the job again" in err


def test_a_run_that_failed_by_numbers_names_the_folder_where_they_are_kept(run, tianjictl):
    run.paths.bad_batches.mkdir()
    run.write_view()
    run.complete(RunState.FAILED, "learner-0: loss is nan")
    err = tianjictl("attach")[2]
    assert f"then the batches that gave no finite numbers are in {run.paths.bad_batches}, then launch" in err
