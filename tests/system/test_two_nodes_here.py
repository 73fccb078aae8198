"""Two nodes on this machine, without SSH or root: launched, stopped on both, resumed with the other as head."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.contract.record import RunRecord
from runtime.courier.environment import find_mpiexec
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


def _library() -> Path:
    """The MPI library beside this Python, in the place of a site's own."""
    found = sorted(Path(sys.prefix, "lib").glob("libmpi.so*"), key=lambda path: path.stat().st_size)
    return found[-1] if found else pytest.skip("there is no MPI library beside this Python")


@pytest.fixture
def inventory(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Two nodes here; with a parameter, with the MPI library and the launcher named as a site would."""
    if not hasattr(request, "param"):
        return INVENTORY
    settings = {"ansible_connection": "local", "tianji_network": "127.0.0.0/8"}
    settings |= {"tianji_mpi_abi": str(_library()), "tianji_mpiexec": str(find_mpiexec())}
    path = tmp_path / "site.yaml"
    path.write_text(yaml.safe_dump({"all": {"vars": settings, "hosts": {"node[1:2]": None}}}))
    return str(path)


@pytest.fixture
def launched(tmp_path: Path, inventory: str):
    words = ("launch", "--env", "CartPole-v1", "--algo", "ppo", "-i", inventory, "-d", "--shape", "L1A2")
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


@pytest.mark.parametrize("inventory", [pytest.param("", id="a library and its launcher")], indirect=True)
def test_a_sites_own_mpi_library_and_launcher_are_used_where_the_inventory_names_them(launched, tmp_path):
    trained(tmp_path, launched, 500)
    couriers = [Path(f"/proc/{process.pid}") for process in processes_of(launched)]
    started = [path.joinpath("cmdline").read_bytes().decode().split("\0") for path in couriers]
    assert sum(Path(words[0]).name == "mpiexec" for words in started) == 2
    mapped = [path.joinpath("maps").read_text() for path in couriers]
    assert sum(str(_library()) in text for text in mapped) >= 2
