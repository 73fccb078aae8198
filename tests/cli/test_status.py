"""`status` tells the truth: live numbers as live, old ones as old, a vanished run as lost."""

from __future__ import annotations

import json
import re

import pytest

from runtime.contract.states import RunState
from runtime.contract.view import Bottleneck, Checkpoints, HostView, Progress, Rates, RunView

KEYS = {
    "": ("run_id", "state", "reason", "attempt", "elapsed_s"),
    "shape": ("wanted", "present"),
    "progress": ("env_steps", "updates", "episodes", "version"),
    "reward": ("mean_100", "best_mean_100", "episodes"),
    "rates": ("env_steps_per_s", "samples_per_s", "updates_per_s"),
    "predicted": ("env_steps_per_s", "samples_per_s"),
    "freshness": ("pool_ratio", "flow_ratio", "version_lag", "staleness_ratio"),
    "samples": ("produced", "consumed", "dropped_stale", "dropped_other", "in_flight"),
    "bottleneck": ("side", "t_sp_s", "t_rv_s", "n_actors", "advice"),
    "checkpoints": ("last_step", "last_age_s", "complete"),
}
COMPONENT_KEYS = {
    "name", "role", "host", "pid", "cores", "state", "attempt", "restarts", "heartbeat_age_s", "cpu_percent",
    "rss_bytes",
}  # fmt: skip


def test_json_holds_every_promised_key(run, tianjictl):
    run.serve()
    code, out, err = tianjictl("status", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert list(document) == ["schema_version", "command", "generated_at", "data", "warnings", "errors"]
    assert document["schema_version"] == 1
    assert document["command"] == "status"
    for part, keys in KEYS.items():
        assert set(document["data"][part] if part else document["data"]) >= set(keys), part
    assert set(document["data"]["freshness"]["version_lag"]) == {"mean", "p50", "p95", "max"}
    assert set(document["data"]["components"][0]) >= COMPONENT_KEYS
    assert set(document["data"]["hosts"][0]) >= {"name", "state", "heartbeat_age_s", "clock_offset_s"}
    assert {"from", "to", "transport", "mb_per_s", "state"} <= set(document["data"]["links"][0])


def test_json_holds_the_newest_twenty_events(run, tianjictl):
    run.serve()
    events = json.loads(tianjictl("status", "--json")[1])["data"]["events"]
    assert [event["id"] for event in events] == [f"e{index}" for index in range(5, 25)]


def test_the_screen_shows_state_reason_and_what_is_asked_of_it(run, tianjictl):
    run.serve()
    code, out, _ = tianjictl("status")
    assert code == 0
    for text in (run.run_id, "running: every component is there", "123.4", "actor-0", "100 produced", "L1A1 wanted"):
        assert text in out
    assert "STALE" not in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_text_of_the_run_is_never_read_as_markup_and_cannot_steer_the_terminal(run, tianjictl):
    run.show(reason="[red]boom[/red] \x1b[2J \x07")
    run.serve()
    out = tianjictl("status")[1]
    assert "[red]boom[/red] \\x1b[2J \\x07" in out
    assert "[bold]event 24[/bold]" in out
    assert "\x1b" not in out


def test_numbers_of_a_silent_coordinator_are_shown_as_old(run, tianjictl):
    run.show(checkpoints=Checkpoints(last_step=5, last_age_s=10.0, complete=1))
    run.write_view(age_s=42)
    run.hold_agent_lock()
    code, out, _ = tianjictl("status", "--exit-code")
    assert re.search(r"STALE: this is 4\d(\.\d)? s old; ", out)
    assert "has no control socket" in out
    assert code == 7
    document = json.loads(tianjictl("status", "--json")[1])
    assert document["data"]["stale"] is True
    assert "42 s old" in document["warnings"][0]
    assert document["data"]["checkpoints"]["last_age_s"] >= 52


def test_checkpoints_that_fail_are_shown_with_why_and_the_way_out(run, tianjictl):
    run.show(checkpoints=Checkpoints(failed_in_a_row=3, problem="No space left on device", hint="free some space"))
    run.serve()
    out = tianjictl("status")[1]
    assert re.search(r"checkpoint +none yet; 3 failed in a row: No space left on device \(free some space\)\n", out)


def test_a_run_whose_agent_vanished_is_lost_not_running(run, tianjictl):
    run.write_view(age_s=3)
    code, out, _ = tianjictl("status", "--exit-code")
    assert "lost: its agent is gone without a completion record" in out
    assert code == 6


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (RunState.RUNNING, 0),
        (RunState.DEGRADED, 7),
        (RunState.FAILED, 6),
        (RunState.STOPPED, 1),
        (RunState.COMPLETED, 0),
    ],
)
def test_exit_code_tells_the_state_only_when_asked(run, tianjictl, state, code):
    run.show(state=state, reason="because")
    run.serve()
    assert tianjictl("status", "--exit-code")[0] == code
    assert tianjictl("status")[0] == 0


def test_the_completion_record_has_the_last_word(run, tianjictl):
    run.write_view()
    run.complete()
    data = json.loads(tianjictl("status", "--json")[1])["data"]
    assert (data["state"], data["reason"], data["stale"]) == ("completed", "mean return 475 reached", False)
    assert data["shape"]["present"] == "L0A0"
    assert {component["state"] for component in data["components"]} == {"exited"}


ENDINGS = [RunState.COMPLETED, RunState.STOPPED, RunState.FAILED, RunState.LOST]


@pytest.mark.parametrize("state", ENDINGS)
def test_a_run_that_is_over_shows_averages_and_nothing_as_if_it_were_now(run, tianjictl, state):
    run.show(
        elapsed_s=100.0,
        progress=Progress(env_steps=250_000, updates=1_000),
        rates=Rates(env_steps_per_s=21_883, samples_per_s=20_000),
        bottleneck=Bottleneck(side="learner", advice="give it cores"),
        checkpoints=Checkpoints(last_step=5, last_age_s=10.0, complete=1),
    )
    run.write_view(age_s=7)
    if state is not RunState.LOST:
        run.complete(state, "because")
    out = tianjictl("status")[1]
    assert "on average 2,500 env steps/s, 10 updates/s" in out
    assert not re.search("21,883|bottleneck|give it cores|, heard|present|connected|L0A0|MB/s", out)
    assert re.search(r"^shape +L1A1; attempt 1", out, re.MULTILINE)
    assert re.search(r"^host +localhost ended$", out, re.MULTILINE)
    again = f"tianjictl resume {run.run_id} --from-checkpoint"
    assert (again in out) == (state is not RunState.COMPLETED)
    line = tianjictl("status", "--watch")[1]
    assert "250,000 steps (2,500/s on average)" in line
    assert "L0A0" not in line


def test_a_run_without_a_checkpoint_is_not_said_to_go_on_from_one(run, tianjictl):
    run.write_view(age_s=7)
    assert "resume" not in tianjictl("status")[1]


def test_a_host_that_was_lost_before_the_run_ended_stays_so_with_its_reason(run, tianjictl):
    hosts = (
        HostView(name="cn01", state="connected", heartbeat_age_s=0.1, clock_offset_s=2.0, head=True),
        HostView(name="cn02", state="lost", heartbeat_age_s=4.0, reason="not heard of for 2.5 s"),
    )
    run.show(hosts=hosts)
    run.write_view()
    run.complete(RunState.FAILED, "cn02 is lost")
    out = tianjictl("status")[1]
    assert "cn01 (head) ended\n" in out
    assert "cn02 lost: not heard of for 2.5 s\n" in out


def test_a_run_that_never_reported_shows_its_plan(run, tianjictl):
    run.hold_agent_lock()
    data = json.loads(tianjictl("status", "--json")[1])["data"]
    assert (data["state"], data["shape"]["wanted"]) == ("pending", "L1A1")


def test_watching_without_a_terminal_prints_lines_until_the_run_ends(run, tianjictl):
    run.show(state=RunState.COMPLETED, reason="done")
    run.serve()
    code, out, _ = tianjictl("status", "--watch")
    assert code == 0
    assert out.startswith("completed 12.5 s")


@pytest.mark.parametrize("option", [("--read-only",), ("--refresh", "2"), ("--ascii",), ("--mouse",)])
def test_the_options_of_the_viewer_go_with_watching_it(run, tianjictl, option):
    run.show(state=RunState.COMPLETED, reason="done")
    run.serve()
    assert tianjictl("status", "--watch", *option)[0] == 0
    code, _, err = tianjictl("status", *option)
    assert code == 2
    assert "hint: tianjictl status --watch" in err


def test_a_viewer_of_today_shows_a_run_of_tomorrow(run):
    newer = {**run.view.model_dump(mode="json"), "colour": "green"}
    assert RunView.model_validate(newer).state is RunState.RUNNING
