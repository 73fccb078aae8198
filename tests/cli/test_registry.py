"""Runs are found by id, beginning, name or age; their processes by the run id in their environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from runtime.contract.record import CompletionRecord
from runtime.contract.run_mark import ROOM, RUN_ID_VARIABLE, mark_process
from runtime.contract.states import RunState
from tianjictl.errors import Locked, UsageProblem
from tianjictl.runs.processes import processes_of, send, wait_gone
from tianjictl.runs.registry import find_run, folder_lock, list_runs, live_run_named, open_run


def test_the_newest_run_is_meant_when_none_is_named(make_run):
    make_run(minutes_ago=9)
    newest = make_run(minutes_ago=1)
    make_run(minutes_ago=5)
    assert find_run(None).run_id == newest.run_id
    assert list_runs()[0].run_id == newest.run_id


def test_a_run_is_found_by_id_by_a_unique_beginning_and_by_name(make_run):
    old = make_run(name="cartpole", minutes_ago=9)
    new = make_run(name="cartpole", minutes_ago=1)
    other = make_run(name="acrobot")
    assert find_run(old.run_id).run_id == old.run_id
    assert find_run("acro").run_id == other.run_id
    assert find_run("cartpole").run_id == new.run_id


def test_an_ambiguous_beginning_is_refused_with_the_candidates(make_run):
    first, second = make_run(name="cartpole"), make_run(name="cartpole")
    with pytest.raises(UsageProblem, match="beginning of 2 runs") as refused:
        find_run("cartp")
    assert first.run_id in refused.value.message
    assert second.run_id in refused.value.message


def test_a_mistyped_name_is_answered_with_the_nearest_one(make_run):
    make_run(name="cartpole")
    with pytest.raises(UsageProblem) as refused:
        find_run("cartploe")
    assert "did you mean cartpole" in (refused.value.hint or "")


def test_a_run_whose_record_is_damaged_is_still_listed(run):
    run.paths.record.write_text("{")
    assert [found.run_id for found in list_runs()] == [run.run_id]
    assert find_run(None).name == "cartpole"


def test_a_run_is_alive_only_while_its_agent_holds_the_lock(run):
    assert live_run_named("cartpole") is None
    run.paths.agent_lock.write_text("1\n")  # left behind by a dead agent: a pid that exists, but no lock
    assert live_run_named("cartpole") is None
    run.hold_agent_lock()
    found = live_run_named("cartpole")
    assert found is not None
    assert found.run_id == run.run_id


def test_a_folder_is_held_by_one_launcher_at_a_time(run):
    with folder_lock(run.paths.root, what=run.run_id):
        assert open_run(run.paths.root).being_started()
        with pytest.raises(Locked, match="another tianjictl"), folder_lock(run.paths.root, what=run.run_id):
            pass
    assert not open_run(run.paths.root).being_started()


def test_the_end_of_an_earlier_attempt_is_not_the_end_of_this_one(run):
    run.complete(RunState.STOPPED, "asked")
    assert isinstance(open_run(run.paths.root).completion(), CompletionRecord)
    run.paths.record.write_text(run.record.model_copy(update={"attempt": 2}).model_dump_json())
    assert open_run(run.paths.root).completion() is None


def test_processes_are_known_by_run_id_and_a_longer_id_is_another_run(run):
    ours = run.process({"TIANJI_RUN_ID": run.run_id})
    run.process({"TIANJI_RUN_ID": run.run_id + "0"})
    assert [process.pid for process in processes_of(run.run_id)] == [ours.pid]


def test_a_signal_reaches_only_processes_of_the_run(run):
    ours = run.process({"TIANJI_RUN_ID": run.run_id})
    other = run.process({"TIANJI_RUN_ID": "someone-elses"})
    found = open_run(run.paths.root)
    assert [process.pid for process in send(found, signal.SIGKILL)] == [ours.pid]
    assert wait_gone(found, time.monotonic() + 5) == []
    assert ours.wait(5) == -signal.SIGKILL
    assert other.poll() is None


MARKED_LATE = """
import os, sys, time
from runtime.contract.run_mark import mark_process
mark_process(sys.argv[1])
child = os.fork()
if child == 0:
    time.sleep(60)
print(child, flush=True)
time.sleep(60)
"""


def test_a_process_that_learns_its_run_late_and_what_it_forks_carry_the_mark(run):
    marked = subprocess.Popen(
        [sys.executable, "-c", MARKED_LATE, run.run_id],
        env={**os.environ, RUN_ID_VARIABLE: ROOM}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert marked.stdout is not None
        child = int(marked.stdout.readline())
        assert [process.pid for process in processes_of(run.run_id)] == sorted([marked.pid, child])
    finally:
        send(open_run(run.paths.root), signal.SIGKILL)
        marked.kill()
        marked.communicate()


def test_an_id_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="longer than"):
        mark_process("x" * 200)


def test_a_run_that_has_noted_its_end_keeps_its_name_from_nobody(run):
    run.hold_agent_lock()
    alive = live_run_named(run.record.name)
    assert alive is not None
    assert alive.run_id == run.run_id
    run.complete()
    assert live_run_named(run.record.name) is None
