"""A run whose head is another machine: every command asks there, over one connection, and keeps what it hears."""

from __future__ import annotations

import json
from pathlib import Path
from signal import SIGKILL

import pytest

from support.ssh_servers import free_port
from tianjictl.errors import Locked
from tianjictl.remote import reach as reaching
from tianjictl.runs import access
from tianjictl.runs.client import observe
from tianjictl.runs.processes import send
from tianjictl.runs.registry import list_runs


@pytest.fixture
def run(hosts, launched, agents):
    del agents
    return launched(hosts("cn01", "cn02"))


def make_unreachable(run, name: str) -> None:
    record = json.loads(run.paths.record.read_text())
    for node in record["nodes"]:
        if node["name"] == name:
            node["host"]["port"] = free_port("127.0.0.4")
    run.paths.record.write_text(json.dumps(record))


def test_status_events_and_checkpoint_are_answered_by_the_head(run, tianjictl):
    data = json.loads(tianjictl("status", "--json")[1])["data"]
    assert (data["state"], data["shape"]["present"]) == ("running", "L1A2")
    assert [row["state"] for row in json.loads(tianjictl("runs", "--json")[1])["data"]["runs"]] == ["running"]
    events = json.loads(tianjictl("events", "--json")[1])["data"]["events"]
    assert events[-1]["message"] == "asked for view"
    code, out, err = tianjictl("checkpoint", "--json")
    assert code == 0, err
    made = Path(run.nodes[0].folder) / "checkpoints" / "step-000000000128"
    assert json.loads(out)["data"]["path"] == f"cn01:{made}"


def test_logs_come_from_every_node_and_name_those_that_cannot_be_asked(run, tianjictl):
    for node, component in zip(run.nodes, ("learner-0", "actor-1"), strict=True):
        (Path(node.folder) / "logs" / f"{component}.1.log").write_text(f"words of {component}\n")
    lines = tianjictl("logs")[1].splitlines()
    assert "learner-0.1 | words of learner-0" in lines
    assert "actor-1.1 | words of actor-1" in lines
    assert "agent@cn01.0 | agent of cn01, version 1" in lines
    assert "agent@cn02.0 | agent of cn02, version 1" in lines
    assert tianjictl("logs", "--host", "cn02", "-c", "actor")[1] == "actor-1.1 | words of actor-1\n"
    assert tianjictl("logs", "--host", "cn03")[0] == 2
    make_unreachable(run, "cn02")
    _, out, err = tianjictl("logs", "-c", "learner-0", "-c", "actor-1")
    assert out == "learner-0.1 | words of learner-0\n"
    assert "the logs of cn02 cannot be read: cn02: connect" in err
    assert tianjictl("logs", "--host", "cn02")[0] == 4


def test_one_connection_serves_a_whole_command(run, monkeypatch):
    opened = []
    real = reaching.reach

    def reach(host, **options):
        opened.append(host.name)
        return real(host, **options)

    monkeypatch.setattr(reaching, "reach", reach)
    access.close_all()
    for _ in range(3):
        assert observe(list_runs()[0]).live
    assert opened == ["cn01"]
    del run


def test_a_head_that_cannot_be_reached_leaves_an_old_picture_and_no_verdict(run, tianjictl):
    assert observe(run).live
    make_unreachable(run, "cn01")
    code, out, err = tianjictl("status", "--json", "--exit-code")
    assert code == 7, err
    document = json.loads(out)
    assert document["data"]["state"] == "running"
    assert "cn01: connect" in document["warnings"][0]
    assert f"tianjictl resume {run.run_id} --from-checkpoint" in document["warnings"][0]
    assert run.completion() is None


def test_a_head_that_stays_away_is_lost_once_nothing_of_the_run_is_left_on_any_other_node(run, tianjictl):
    assert observe(run).live
    make_unreachable(run, "cn01")
    access.close_all()
    view = json.loads(run.paths.view.read_text())
    run.paths.view.write_text(json.dumps(view | {"updated_at": "2026-01-01T00:00:00Z"}))
    data = json.loads(tianjictl("status", "--json")[1])["data"]
    assert data["state"] == "running", "cn02 has processes of it"
    send(run, SIGKILL)
    data = json.loads(tianjictl("status", "--json")[1])["data"]
    assert data["state"] == "lost"
    assert "cn01 does not answer, and nothing of the run is left on cn02" in data["reason"]
    assert f"tianjictl resume {run.run_id} --from-checkpoint" in data["reason"]


def test_how_a_run_ended_is_heard_once_and_kept(run, tianjictl):
    assert tianjictl("stop", "--yes", "--grace", "500ms")[0] == 0
    make_unreachable(run, "cn01")
    access.close_all()
    data = json.loads(tianjictl("status", "--json")[1])["data"]
    assert (data["state"], data["reason"]) == ("stopped", "asked by the operator")


def test_a_head_whose_agent_is_gone_without_a_word_is_lost(run, tianjictl):
    send(run, SIGKILL)
    data = json.loads(tianjictl("status", "--json")[1])["data"]
    assert data["state"] == "lost"
    assert "its agent is gone without a completion record" in data["reason"]


@pytest.mark.usefixtures("run")
def test_a_second_launch_of_a_name_that_lives_elsewhere_is_refused(hosts, launched):
    with pytest.raises(Locked, match="a run named cartpole is alive"):
        launched(hosts("cn01"))
