"""Logs across attempts, events with their causes."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from runtime.contract.files import append_line
from runtime.contract.log_files import tail, wants
from runtime.contract.view import Event
from tianjictl.cli.logs import time_of


@pytest.fixture
def logged(run):
    for component, attempt, lines in (
        ("actor-10", 1, ["ten"]),
        ("actor-2", 1, ["one", "two"]),
        ("actor-2", 2, ["three", "\x1b[31mred"]),
        ("learner-0", 1, ["learn"]),
    ):
        run.paths.log(component, attempt).write_text("".join(f"{line}\n" for line in lines))
    (run.paths.logs / "agent.log").write_text("supervising\n")
    run.write_view()
    run.complete()
    return run


@pytest.mark.usefixtures("logged")
def test_logs_go_by_component_and_attempt_with_escapes_made_harmless(tianjictl):
    assert tianjictl("logs")[1].splitlines() == [
        "actor-2.1 | one",
        "actor-2.1 | two",
        "actor-2.2 | three",
        "actor-2.2 | \\x1b[31mred",
        "actor-10.1 | ten",
        "agent.0 | supervising",
        "learner-0.1 | learn",
    ]


@pytest.mark.usefixtures("logged")
def test_logs_of_a_role_or_component_and_only_the_newest_lines(tianjictl):
    assert tianjictl("logs", "--component", "actor", "-n", "1")[1].splitlines() == [
        "actor-2.2 | \\x1b[31mred",
        "actor-10.1 | ten",
    ]
    assert tianjictl("logs", "-c", "learner-0")[1] == "learner-0.1 | learn\n"


def test_a_courier_is_chosen_by_its_name_its_role_or_with_its_host():
    for chosen in ("courier", "courier.cn02", "courier.cn02@cn01"):
        assert wants("courier.cn02@cn01", [chosen])
    assert not wants("courier.cn02@cn01", ["courier.cn03"])
    assert wants("agent@cn01", ["agent"])
    assert not wants("actor-1", ["actor-10"])


def test_logs_that_are_empty_are_called_so(run, tianjictl):
    (run.paths.logs / "actor-0.1.log").write_text("")
    code, out, err = tianjictl("logs", "-c", "actor-0")
    assert (code, out) == (0, "")
    assert "nothing has been written by actor-0" in err
    assert f"tianjictl events {run.run_id}" in err


@pytest.mark.usefixtures("logged")
def test_the_newest_lines_reach_back_into_the_attempt_before(tianjictl):
    assert tianjictl("logs", "-c", "actor-2", "-n", "3")[1].splitlines()[0] == "actor-2.1 | two"


@pytest.mark.usefixtures("logged")
def test_a_component_that_never_was_is_refused_with_those_there_are(tianjictl):
    code, _, err = tianjictl("logs", "-c", "actor-7")
    assert code == 2
    assert "actor-2, actor-10" in err


def test_since_goes_by_the_time_at_the_start_of_a_line(run, tianjictl):
    old, new = (datetime.now(UTC) - timedelta(minutes=m) for m in (30, 1))
    run.paths.log("actor-0", 1).write_text(
        f"{old:%Y-%m-%dT%H:%M:%SZ} old\n{new.astimezone():%Y-%m-%d %H:%M:%S},123 new\n  more\n"
    )
    shown = tianjictl("logs", "--since", "10m")[1]
    assert "old" not in shown
    assert shown.splitlines()[-1] == "actor-0.1 |   more"


@pytest.mark.usefixtures("logged")
def test_logs_of_a_host_come_from_what_was_planned_there(tianjictl):
    assert tianjictl("logs", "--host", "localhost")[1] == "learner-0.1 | learn\n"
    assert tianjictl("logs", "--host", "elsewhere")[0] == 2


@pytest.mark.usefixtures("logged")
def test_logs_as_json(tianjictl):
    lines = json.loads(tianjictl("logs", "--json", "-c", "learner")[1])["data"]["lines"]
    assert lines == [{"component": "learner-0", "attempt": 1, "line": "learn"}]


def test_following_shows_what_is_appended_and_files_that_appear_and_ends_with_the_run(run):
    run.serve()
    run.paths.log("actor-0", 1).write_text("first\n")
    following = subprocess.Popen(
        [sys.executable, "-m", "tianjictl.cli.main", "logs", "-f"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert following.stdout is not None
        assert following.stdout.readline() == "actor-0.1 | first\n"
        append_line(run.paths.log("actor-0", 1), "second")
        assert following.stdout.readline() == "actor-0.1 | second\n"
        append_line(run.paths.log("actor-0", 2), "third")
        assert following.stdout.readline() == "actor-0.2 | third\n"
        run.complete()
        assert following.wait(20) == 0
    finally:
        following.kill()
        following.communicate()


def test_the_end_of_a_large_file_is_read_from_its_end(tmp_path):
    path = tmp_path / "log"
    path.write_text("".join(f"{number:09d}\n" for number in range(50_000)))
    assert tail(path, 2).lines == ["000049998", "000049999"]
    assert len(tail(path, 100_000).lines) == 50_000
    assert tail(path, 0).lines == []
    assert tail(tmp_path / "none", 3).lines == []


def test_an_unfinished_last_line_waits_for_its_end_when_following(tmp_path):
    path = tmp_path / "log"
    path.write_text("whole\nhal")
    assert tail(path, 5).lines == ["whole", "hal"]
    waiting = tail(path, 5, whole=True)
    assert (waiting.lines, waiting.end) == (["whole"], len("whole\n"))


@pytest.mark.parametrize("text", ["no time", "2026-13-40 99:99:99 x", ""])
def test_a_line_without_a_time_has_none(text):
    assert time_of(text) is None


def event(identity: str, **more: str) -> str:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Event(id=identity, time=now, kind="component.died", message="actor-0 died", **more).model_dump_json()


def test_events_name_their_causes_and_bad_lines_are_counted(run, tianjictl):
    run.paths.events.write_text(f"{event('e1')}\nnot json\n{event('e2', cause='e1')}\n{event('e3')[:20]}")
    code, out, _ = tianjictl("events")
    assert code == 0
    assert [line.split()[2] for line in out.splitlines()] == ["e1", "e2"]
    assert out.splitlines()[1].endswith("<- e1")
    document = json.loads(tianjictl("events", "--json")[1])
    assert [entry["id"] for entry in document["data"]["events"]] == ["e1", "e2"]
    assert document["warnings"] == ["1 lines of the event log make no sense"]


def test_events_stand_oldest_first_also_where_the_log_learnt_of_one_later(run, tianjictl):
    later, earlier = (
        Event(id=name, time=datetime(2026, 1, 1, second=second, tzinfo=UTC), kind="k", message="m", host=host)
        for name, second, host in (("resumed", 4, None), ("restarted", 2, "localhost"))
    )
    run.paths.events.write_text(f"{later.model_dump_json()}\n{earlier.model_dump_json()}\n")
    assert [line.split()[2] for line in tianjictl("events")[1].splitlines()] == ["restarted", "resumed"]


def test_followed_events_are_json_lines_until_the_run_ends(run, tianjictl):
    run.paths.events.write_text(f"{event('e1')}\n")
    run.write_view()
    run.complete()
    out = tianjictl("events", "-f", "--json")[1]
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["e1"]


def test_runs_are_listed_newest_first_with_state_and_reason(make_run, tianjictl):
    old, new = make_run(minutes_ago=90), make_run(name="acrobot", minutes_ago=1)
    old.write_view()
    old.complete()
    new.serve()
    rows = json.loads(tianjictl("runs", "--json")[1])["data"]["runs"]
    assert [(row["run_id"], row["state"]) for row in rows] == [(new.run_id, "running"), (old.run_id, "completed")]
    out = tianjictl("runs")[1]
    assert "mean return 475 reached" in out
    assert "1 h 30 min" in out
    assert tianjictl("runs", "-n", "1")[1].count("\n") == 2
