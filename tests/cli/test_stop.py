"""Stopping: asked first, then signals, only to what carries the run's id, and verified."""

from __future__ import annotations

import json
import signal

import pytest

from runtime.contract.operator import StopRequest
from runtime.contract.states import RunState
from tianjictl.launching import stopping

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


@pytest.fixture
def ours(run):
    return run.process({"TIANJI_RUN_ID": run.run_id})


def test_a_run_that_heeds_the_request_is_never_signalled(run, ours, tianjictl):
    run.serve()
    run.write_view()
    run.on_stop = lambda: (run.complete(RunState.STOPPED, "asked"), ours.kill(), ours.wait())
    code, out, _ = tianjictl("stop", "--yes", "--json")
    assert code == 0
    data = json.loads(out)["data"]
    assert (data["how"], data["state"], data["survivors"]) == ("asked", "stopped", [])
    assert run.requests[0] == StopRequest(checkpoint=True)


def test_without_a_checkpoint_the_request_says_so(run, ours, tianjictl):
    run.serve()
    run.on_stop = lambda: (ours.kill(), ours.wait())
    assert tianjictl("stop", "--yes", "--no-checkpoint")[0] == 0
    assert run.requests[0] == StopRequest(checkpoint=False)


def test_a_run_without_a_coordinator_is_terminated_and_then_marked_as_stopped(run, ours, tianjictl):
    other = run.process({"TIANJI_RUN_ID": "another-run"})
    code, out, _ = tianjictl("stop", "--yes")
    assert code == 0
    assert "(terminated); nothing is left" in out
    assert ours.wait(5) == -signal.SIGTERM
    assert other.poll() is None
    assert json.loads(tianjictl("status", "--json")[1])["data"]["state"] == "stopped"


def test_what_ignores_the_request_and_sigterm_is_killed_after_the_grace(run, tianjictl, monkeypatch):
    monkeypatch.setattr(stopping, "TERM_WAIT_S", 0.3)
    deaf = run.process({"TIANJI_RUN_ID": run.run_id}, DEAF)
    assert deaf.stdout is not None
    assert deaf.stdout.readline() == "deaf\n"
    run.serve()
    code, out, err = tianjictl("stop", "--yes", "--grace", "300ms")
    assert code == 0
    assert "(killed); nothing is left" in out
    assert "still there after 0.3 s" in err
    assert deaf.wait(5) == -signal.SIGKILL


@pytest.mark.usefixtures("run")
def test_a_frozen_process_is_stopped_too(ours, tianjictl):
    ours.send_signal(signal.SIGSTOP)
    assert tianjictl("stop", "--yes")[0] == 0
    assert ours.wait(5) == -signal.SIGTERM


def test_force_asks_nobody(run, ours, tianjictl):
    run.serve()
    assert tianjictl("stop", "--force", "--yes")[0] == 0
    assert ours.wait(5) == -signal.SIGKILL
    assert not any(isinstance(request, StopRequest) for request in run.requests)


def test_stopping_twice_is_no_error_and_asks_no_question(run, tianjictl):
    run.write_view()
    run.complete()
    for _ in range(2):
        code, out, _ = tianjictl("stop")
        assert code == 0
        assert "was not running (completed" in out


@pytest.mark.usefixtures("run")
def test_without_a_terminal_the_missing_flag_is_named_and_nothing_is_stopped(ours, tianjictl):
    code, _, err = tianjictl("stop")
    assert code == 2
    assert "hint: pass --yes" in err
    assert ours.poll() is None


@pytest.mark.usefixtures("run")
def test_a_grace_that_is_no_duration_is_refused(tianjictl):
    code, _, err = tianjictl("stop", "--grace", "soon")
    assert code == 2
    assert "--grace" in err
