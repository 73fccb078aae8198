"""A launch over hosts ends with an agent on every one of them, or with nothing on any."""

from __future__ import annotations

import json
import os
import signal
import stat
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from runtime.contract.order import AgentOrder
from runtime.contract.states import RunState
from support.ssh_servers import eventually, free_port
from tianjictl.errors import DoctorFailed, Interrupted, TianjiError, TimedOut, Unreachable
from tianjictl.launching import cluster_launch, host_check, node_start
from tianjictl.launching.stopping import stop_run
from tianjictl.runs.client import observe
from tianjictl.runs.processes import processes_of
from tianjictl.runs.registry import list_runs


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def failed(launched, inventory, kind: type[TianjiError] = TianjiError) -> TianjiError:
    """The error that the launch comes to; nothing of it may be left running."""
    with pytest.raises(kind) as caught:
        launched(inventory)
    for run in list_runs():
        assert processes_of(run.run_id) == [], caught.value.details
        completion = run.completion()
        assert completion is not None
        assert completion.state in (RunState.FAILED, RunState.STOPPED)
    return caught.value


@pytest.mark.usefixtures("agents")
def test_every_host_is_reached_checked_staged_and_started_and_stopped_again(hosts, launched):
    lines: list[str] = []
    run = launched(hosts("cn01", "cn02", fresh=True), lines.append)
    assert observe(run).view.state is RunState.RUNNING
    for name in ("cn01", "cn02"):
        said = [line.removeprefix(f"{name}: ").split()[0] for line in lines if line.startswith(f"{name}: ")]
        assert said == ["reached", "checked:", "runtime", "agent"], lines
    assert len({process.pid for process in processes_of(run.run_id)}) == 2
    report = stop_run(run, checkpoint=True, grace_s=0.5)
    assert (report.how, report.survivors, report.unreachable) == ("terminated", (), ())
    assert processes_of(run.run_id) == []
    completion = run.completion()
    assert completion is not None
    assert (completion.state, completion.reason) == (RunState.STOPPED, "asked by the operator")
    assert observe(run).ended
    assert stop_run(run, checkpoint=True, grace_s=5.0).how == "already"


@pytest.mark.usefixtures("agents")
def test_a_node_gets_its_order_and_the_keys_of_an_agent_and_no_other_may_read_them(hosts, launched, used_state):
    run = launched(hosts("cn01", "cn02"))
    [head, other] = [Path(node.folder) for node in run.nodes]
    assert head == used_state / "nodes" / "cn01" / run.run_id
    keys = other / "keys"
    assert sorted(path.name for path in keys.iterdir()) == [
        "agent.public",
        "agent.secret",
        "coordinator.public",
        "link.key",
    ]
    assert (keys / "link.key").read_text() == f"link.key of {run.run_id}\n"
    assert mode_of(keys) == mode_of(other) == 0o700
    assert {mode_of(path) for path in (*keys.iterdir(), other / "order.json")} == {0o600}
    order = AgentOrder.model_validate_json((other / "order.json").read_bytes())
    assert order == AgentOrder(
        run=str(other), node="cn02", head=False, attempt=1, coordinator="tcp://127.0.0.1:40001", network="127.0.0.0/8"
    )
    assert not (other / "plan.json").exists()
    assert (head / "plan.json").exists()
    assert run.record is not None
    assert (run.record.head, run.record.endpoint) == ("cn01", "tcp://127.0.0.1:40001")
    stop_run(run, checkpoint=False, grace_s=0.0, force=True)


@pytest.mark.usefixtures("agents")
def test_what_is_staged_already_is_not_sent_again(hosts, launched):
    stop_run(launched(hosts("cn01")), checkpoint=False, grace_s=0.0, force=True)
    lines: list[str] = []
    run = launched(hosts("cn01"), lines.append)
    assert not any("staged" in line for line in lines)
    stop_run(run, checkpoint=False, grace_s=0.0, force=True)


@pytest.mark.usefixtures("agents")
def test_a_dead_host_is_named_at_once_and_nothing_is_started_anywhere(hosts, launched):
    inventory = hosts("cn01", "cn02", cn02={"port": free_port("127.0.0.4")})
    began = time.monotonic()
    error = failed(launched, inventory, Unreachable)
    assert error.message.startswith("cn02: connect: ")
    assert time.monotonic() - began < 60.0  # no deadline was waited for
    assert list_runs() == []


@pytest.mark.usefixtures("agents")
def test_all_hosts_that_cannot_take_part_are_named_together(hosts, launched, tmp_path, monkeypatch):
    monkeypatch.setattr(host_check, "MODULES", ("json", "pydantic"))
    old = tmp_path / "python3.6"
    old.write_text('#!/bin/sh\necho \'{"python": "/old", "version": [3, 6, 9], "state": "/s"}\'; exit 1\n')
    old.chmod(0o755)
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {os.path.realpath("/usr/bin/python3")} -S "$@"\n')
    bare.chmod(0o755)
    error = failed(
        launched,
        hosts(
            "cn01", "cn02", "cn03", "cn04", "cn05",
            cn01={"python": "/nowhere/python"}, cn02={"python": str(old)}, cn03={"python": str(bare)},
            cn04={"workdir": "/proc/none"},
        ),
        DoctorFailed,
    )  # fmt: skip
    told = {finding.message.partition(":")[0]: finding for finding in error.findings()}
    assert "check: there is no /nowhere/python" in told["cn01"].message
    assert "/old is Python 3.6.9, and 3.11 or newer is needed" in told["cn02"].message
    assert "lacks pydantic" in told["cn03"].message
    assert told["cn03"].hint is not None
    assert "tianjictl playbook bootstrap --limit cn03" in told["cn03"].hint
    assert "check: its folder for runs cannot be made" in told["cn04"].message
    assert "cn05" not in told


@pytest.mark.usefixtures("agents")
def test_a_full_disk_is_named_before_anything_is_started(hosts, launched, monkeypatch):
    monkeypatch.setattr(cluster_launch, "needed_at", lambda _plan, _home: 1 << 60)
    error = failed(launched, hosts("cn01", "cn02"), DoctorFailed)
    assert "cn01: check: the disk of" in error.message
    assert "MiB free" in error.message
    assert list_runs() == []


@pytest.mark.parametrize(
    ("modes", "said"),
    [
        ({"cn01": "down"}, "cn01: start: the coordinator did not come up: the port is taken"),
        ({"cn01": "die"}, "cn01: start: the agent ended before it was ready"),
        ({"cn02": "refuse"}, "cn02: start: no memory for the rings"),
        ({"cn02": "die"}, "a library is missing"),
    ],
)
def test_an_agent_that_does_not_come_up_takes_all_of_it_down(hosts, launched, agents, modes, said):
    agents(**modes)
    lines: list[str] = []
    error = failed(partial(launched, progress=lines.append), hosts("cn01", "cn02"))
    assert said in error.message
    assert error.details == ()
    [run] = list_runs()
    for name in ("cn01", "cn02"):
        assert f"{name}: nothing of the run is left running" in lines
    assert any("its logs are kept in" in line for line in lines)
    for node in run.nodes:
        assert not (Path(node.folder) / "keys").exists()


def test_an_agent_that_never_answers_is_given_up(hosts, launched, agents, monkeypatch):
    agents(cn02="mute")
    monkeypatch.setattr(node_start, "ANSWER_WITHIN_S", 4.0)
    error = failed(launched, hosts("cn01", "cn02", "cn03"), TimedOut)
    assert error.message.startswith("cn02: start: the agent did not say that it is ready within 4 s:")
    assert "agent: agent of cn02" in error.message


def test_components_that_never_report_are_named(hosts, launched, agents, monkeypatch):
    agents(cn01="silent")
    monkeypatch.setattr(cluster_launch, "UP_WITHIN_S", 2.0)
    error = failed(launched, hosts("cn01"), TimedOut)
    assert "learner-0 starting" in error.message


@pytest.mark.parametrize("phase", ["checked", "runtime staged", "agent and coordinator", "cn02: agent is"])
@pytest.mark.usefixtures("agents")
def test_ctrl_c_in_any_phase_leaves_nothing(hosts, launched, phase):
    def interrupt(line: str) -> None:
        if phase in line:
            raise KeyboardInterrupt

    with pytest.raises((Interrupted, KeyboardInterrupt)):
        launched(hosts("cn01", "cn02", fresh=phase == "runtime staged"), interrupt)
    for run in list_runs():
        assert processes_of(run.run_id) == []
        completion = run.completion()
        assert completion is not None
        assert completion.state is RunState.STOPPED


def test_ctrl_c_while_an_agent_is_awaited_does_not_wait_for_it(hosts, launched, agents, used_state):
    agents(cn02="mute")
    began: list[float] = []

    def speaking() -> set[Path]:
        return {log for log in used_state.glob("nodes/cn02/*/logs/agent.log") if log.stat().st_size}

    before = speaking()

    def once_it_runs() -> None:
        if eventually(lambda: speaking() > before):
            began.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    def interrupt(line: str) -> None:
        if "agent and coordinator" in line:
            threading.Thread(target=once_it_runs).start()

    with pytest.raises(Interrupted):
        launched(hosts("cn01", "cn02"), interrupt)
    assert time.monotonic() - began[0] < 45.0  # an agent is given longer
    [run] = list_runs()
    assert processes_of(run.run_id) == []


@pytest.mark.usefixtures("agents")
def test_stop_names_the_node_that_cannot_be_looked_at_and_ends_the_others(hosts, launched, tianjictl):
    run = launched(hosts("cn01", "cn02"))
    record = json.loads(run.paths.record.read_text())
    record["nodes"][1]["host"]["port"] = free_port("127.0.0.4")
    run.paths.record.write_text(json.dumps(record))
    code, _, err = tianjictl("stop", "--yes", "--grace", "500ms")
    assert code == 4
    assert "error: cn02: connect: " in err
    assert "when it answers again: tianjictl stop" in err
    assert eventually(lambda: processes_of(run.run_id) == [])
