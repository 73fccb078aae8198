"""Two nodes on this machine, without SSH or root: launched, stopped on both, resumed with the other as head."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.record import RunRecord
from support.running import tianjictl
from tianjictl.runs.processes import processes_of

INVENTORY = str(Path(__file__).resolve().parents[2] / "inventory" / "two-nodes-local.yaml")
SLOW = ("--oversubscribe", "--set", "env.delay_us=5000", "--set", "training.stop.wall_time=120s")


def document(home: Path, *words: str) -> Any:
    return json.loads(tianjictl(home, *words, "--json").stdout)["data"]


def trained(home: Path, run_id: str, env_steps: int) -> Any:
    """The status once so much has been played and both ends of the link are up."""
    deadline = time.monotonic() + 30
    while True:
        seen = document(home, "status", run_id)
        linked = [link["state"] for link in seen["links"]] == ["up", "up"]
        if linked and seen["state"] == "running" and seen["progress"]["env_steps"] > env_steps:
            return seen
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)  # between two looks at other processes


@pytest.fixture
def launched(tmp_path: Path):
    words = ("launch", "--env", "CartPole-v1", "--algo", "ppo", "-i", INVENTORY, "-d", "--shape", "L1A2")
    data = document(tmp_path, *words, *SLOW)
    yield data["run_id"]
    tianjictl(tmp_path, "stop", data["run_id"], "--yes", "--force", check=False)
    assert processes_of(data["run_id"]) == []


def test_a_run_over_two_nodes_is_launched_stopped_on_both_and_resumed_with_another_head(launched, tmp_path):
    first = trained(tmp_path, launched, 1000)
    assert {component["host"] for component in first["components"]} == {"node1", "node2"}
    assert [host["name"] for host in first["hosts"]] == ["node1", "node2"]
    stopped = document(tmp_path, "stop", launched, "--yes")
    assert (stopped["how"], stopped["state"], stopped["survivors"]) == ("asked", "stopped", [])
    assert processes_of(launched) == []
    again = document(tmp_path, "resume", launched, "--from-checkpoint", "-d", "--head", "node2", "--oversubscribe")
    assert again["attempt"] == 2
    second = trained(tmp_path, launched, first["progress"]["env_steps"])
    assert second["hosts"][0]["name"] == "node2"
    record = RunRecord.model_validate_json((tmp_path / "runs" / launched / "run.json").read_bytes())
    assert record.head == "node2"
    assert (record.resumed_from or "").startswith(record.nodes[0].folder)
