"""A run over hosts goes on from the newest whole checkpoint that any of its nodes has, on those that are there."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from runtime.checkpoint.manifest import Manifest
from runtime.checkpoint.partial import PartialCheckpoint
from runtime.checkpoint.shard import save_shard
from support.ssh_servers import free_port
from tianjictl.errors import CheckpointProblem, Locked
from tianjictl.launching import cluster_resume
from tianjictl.launching.cluster_resume import Resume
from tianjictl.launching.stopping import stop_run
from tianjictl.runs.checkpoints import list_checkpoints
from tianjictl.runs.registry import open_run


@pytest.fixture
def stopped(hosts, launched, agents):
    """A run over cn01 and cn02 that has been stopped."""
    del agents
    run = launched(hosts("cn01", "cn02"))
    stop_run(run, checkpoint=False, grace_s=0.0, force=True)
    return run


def save(run, node: int, step: int) -> Path:
    folder = Path(run.nodes[node].folder) / "checkpoints"
    partial_one = PartialCheckpoint(folder, step)
    save_shard(partial_one.folder, "learner-0", {"params": np.arange(4096, dtype=np.float32)}, {})
    about = Manifest(
        run_id=run.run_id, name="cartpole", step=step, created_at=datetime.now(UTC), shape="L1A2", job_digest="d"
    )
    return partial_one.complete(about, ["learner-0"])


def resumed(run, wanted: str = "latest", *, inventory=None, head: str | None = None, lines: list[str] | None = None):
    said = [] if lines is None else lines
    resuming = Resume(run, inventory, shape=None, oversubscribe=False, head=head, progress=said.append)
    return resuming.go(wanted, argv=["resume"], version="1")[0]


def order_of(run, node: int) -> dict[str, object]:
    found: dict[str, object] = json.loads((Path(run.nodes[node].folder) / "order.json").read_text())
    return found


def test_the_newest_checkpoint_is_brought_to_the_head_from_the_node_that_has_it(stopped):
    save(stopped, 0, 100)
    newest = save(stopped, 1, 200)
    again = resumed(stopped)
    there = Path(again.nodes[0].folder) / "checkpoints" / "step-000000000200"
    assert {path.name: path.read_bytes() for path in there.iterdir()} == {
        path.name: path.read_bytes() for path in newest.iterdir()
    }
    assert order_of(again, 0)["resume_from"] == str(there)
    assert (order_of(again, 0)["attempt"], order_of(again, 1)["attempt"]) == (2, 2)
    assert order_of(again, 1)["resume_from"] is None
    assert again.record is not None
    assert (again.record.attempt, again.record.resumed_from) == (2, str(there))


def test_a_damaged_checkpoint_is_passed_over_on_its_node_and_named(stopped):
    newest = save(stopped, 1, 200)
    save(stopped, 0, 100)
    (newest / "learner-0.safetensors").write_bytes(b"")
    lines: list[str] = []
    again = resumed(stopped, lines=lines)
    assert order_of(again, 0)["resume_from"] == str(Path(again.nodes[0].folder) / "checkpoints" / "step-000000000100")
    assert any(line.startswith("the checkpoint of step 100 is on cn01") for line in lines)


def test_a_head_that_is_not_there_is_replaced_by_the_next_host_and_that_is_said(stopped, plan_of, hosts, monkeypatch):
    save(stopped, 1, 200)
    record = json.loads(stopped.paths.record.read_text())
    record["nodes"][0]["host"]["port"] = free_port("127.0.0.4")
    stopped.paths.record.write_text(json.dumps(record))
    alone = plan_of(hosts("cn02"))
    monkeypatch.setattr(cluster_resume, "plan_for", lambda *_args, **_options: alone)
    lines: list[str] = []
    again = resumed(open_run(stopped.paths.root), lines=lines)
    assert "cn01 is not there: cn02 is the head from now on" in lines
    assert any(line.startswith("cn01 is left out") for line in lines)
    assert again.record is not None
    assert again.record.head == "cn02"
    assert [node.name for node in again.record.former] == ["cn01"]
    assert order_of(again, 0)["head"] is True


def test_without_the_head_its_copies_elsewhere_are_listed_and_the_run_goes_on_in_the_shape_of_the_newest(
    stopped, plan_of, hosts, monkeypatch
):
    save(stopped, 1, 200)
    record = json.loads(stopped.paths.record.read_text())
    record["nodes"][0]["host"]["port"] = free_port("127.0.0.4")
    stopped.paths.record.write_text(json.dumps(record))
    lines: list[str] = []
    assert [view.step for view in list_checkpoints(open_run(stopped.paths.root), lines.append)] == [200]
    assert "these are the copies on cn02" in lines[0]
    launched_as = json.loads(stopped.paths.plan.read_text())
    stopped.paths.plan.write_text(json.dumps(launched_as | {"shape": "L1A1"}))
    asked: list[str] = []

    def plan_for(*_args: object, shape: str, **_options: object) -> object:
        asked.append(shape)
        return plan_of(hosts("cn02"))

    monkeypatch.setattr(cluster_resume, "plan_for", plan_for)
    resumed(open_run(stopped.paths.root), lines=lines)
    assert asked == ["L1A2"], "the checkpoint's, not that of the launch"
    assert "the checkpoint was written as L1A2, and so it goes on" in lines


def test_nothing_is_resumed_while_a_process_of_the_run_is_left_on_any_node(hosts, launched, agents):
    del agents
    run = launched(hosts("cn01", "cn02"))
    with pytest.raises(Locked, match=r"are still there: \d+ on cn01"):
        resumed(run)


def test_without_a_checkpoint_on_any_node_nothing_begins_from_scratch(stopped):
    with pytest.raises(CheckpointProblem, match="no complete checkpoint of"):
        resumed(stopped)
    assert open_run(stopped.paths.root).attempt == 1


def test_a_checkpoint_of_this_machine_is_sent_to_the_head(stopped, tmp_path):
    made = save(stopped, 0, 300)
    mine = tmp_path / "mine" / made.name
    shutil.copytree(made, mine)
    shutil.rmtree(made)
    again = resumed(stopped, str(mine))
    assert (Path(again.nodes[0].folder) / "checkpoints" / made.name / "manifest.json").exists()


def test_the_command_continues_over_the_hosts_of_the_record(stopped, tianjictl):
    save(stopped, 0, 100)
    code, out, err = tianjictl("resume", "--from-checkpoint", "-d", "--json", "--yes")
    assert code == 0, err
    assert json.loads(out)["data"]["attempt"] == 2
    assert "continuing" in err
