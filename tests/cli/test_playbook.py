"""`tianjictl playbook`: the real ansible-playbook, on this machine and on what cannot be reached."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = sorted((ROOT / "playbooks" / "ops").glob("*.yml"))
FOUND = Path(sys.executable).with_name("ansible-playbook")
PROGRAM = str(FOUND) if FOUND.exists() else shutil.which("ansible-playbook")
needs_ansible = pytest.mark.skipif(PROGRAM is None, reason="ansible-playbook is not installed (extra `ansible`)")


@pytest.fixture
def inventory(tmp_path):
    """This machine, with a folder of its own for runs."""
    path = tmp_path / "hosts.yaml"
    settings = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "tianji_workdir": str(tmp_path / "home"),
    }
    path.write_text(yaml.safe_dump({"all": {"hosts": {"here": settings}}}))
    return path


def playbook(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tianjictl", "playbook", *map(str, words)]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=200, check=False
    )


def test_without_a_name_every_playbook_is_listed_with_what_it_does():
    done = playbook()
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [path.stem for path in PLAYBOOKS]


def test_an_unknown_name_is_refused_with_the_nearest():
    done = playbook("bootstrp")
    assert done.returncode == 2
    assert "did you mean bootstrap?" in done.stderr


def test_a_node_gets_the_packages_of_this_project_within_the_same_bounds():
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = {line.partition(";")[0].strip() for line in ours}
    listed = yaml.safe_load((ROOT / "playbooks" / "ops" / "vars" / "packages.yml").read_text())
    assert set(listed["tianji_packages"]) | set(listed["tianji_torch_packages"]) <= bounds


@needs_ansible
@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_ansible_understands_every_playbook(path, inventory):
    assert PROGRAM is not None
    done = subprocess.run(
        [PROGRAM, "--syntax-check", "-i", inventory, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@needs_ansible
def test_an_inventory_that_ansible_would_pass_over_is_refused_before_it_is_asked(tmp_path):
    path = tmp_path / "hosts.yaml"
    path.write_text("all:\n  hosts:\n\there:\n")
    done = playbook("cleanup", "-i", path)
    assert done.returncode == 2
    assert "PLAY" not in done.stdout


@needs_ansible
def test_a_host_that_cannot_be_reached_is_exit_code_4(tmp_path):
    path = tmp_path / "hosts.yaml"
    nobody = {"ansible_host": "127.0.0.1", "ansible_port": 9, "ansible_user": "nobody"}
    path.write_text(yaml.safe_dump({"all": {"hosts": {"far": nobody}}}))
    done = playbook("cleanup", "-i", path)
    assert done.returncode == 4
    assert "could not be reached" in done.stderr


@needs_ansible
def test_cleanup_removes_old_folders_of_ended_runs_and_leaves_those_of_living_ones(tmp_path, inventory):
    nodes = tmp_path / "home" / "nodes" / "here"
    for run in ("ended-1", "living-1", "young-1"):
        (nodes / run).mkdir(parents=True)
    for run in ("ended-1", "living-1"):
        os.utime(nodes / run, (0, 0))
    living = subprocess.Popen(["sleep", "3600"], env=os.environ | {"TIANJI_RUN_ID": "living-1"})
    try:
        looked = playbook("cleanup", "-i", inventory, "--check")
        assert looked.returncode == 0, looked.stdout
        assert (nodes / "ended-1").exists(), "a look removes nothing"
        done = playbook("cleanup", "-i", inventory)
        assert done.returncode == 0, done.stdout
    finally:
        living.kill()
        living.wait()
    assert sorted(path.name for path in nodes.iterdir()) == ["living-1", "young-1"]
