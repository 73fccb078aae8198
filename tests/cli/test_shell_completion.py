"""What a shell is offered after TAB, asked as bash, zsh and fish ask: a process of its own, from local files alone."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.contract.states import RunState
from runtime.contract.waiting import wait_readable

Complete = Callable[..., list[str]]

INVENTORY = """\
all:
  hosts: {cn01: {ansible_host: 10.0.0.1}, cn02: {}, gpu1: {}}
  children:
    actors: {hosts: {cn01: {}, cn02: {}}}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with `tianjictl` in it, of the interpreter that runs the test."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "tianjictl").write_text(f'#!/bin/sh\nexec {sys.executable} -m tianjictl "$@"\n')
    (folder / "tianjictl").chmod(0o755)
    return folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the line is typed, with an inventory in it."""
    (tmp_path / "inv.yaml").write_text(INVENTORY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIANJICTL_INVENTORY", raising=False)
    return tmp_path


@pytest.fixture
def complete(place: Path) -> Complete:  # noqa: ARG001 - only has to be there
    """The words offered for the last of `words`; fails where anything is said on standard error."""

    def ask(*words: str, **environment: str) -> list[str]:
        asked = environment or {
            "_TIANJICTL_COMPLETE": "complete_bash",
            "COMP_WORDS": "\n".join(("tianjictl", *words)),
            "COMP_CWORD": str(len(words)),
        }
        done = subprocess.run(
            [sys.executable, "-m", "tianjictl"], env={**os.environ, **asked}, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return [line for line in done.stdout.splitlines() if line]

    return ask


def test_runs_are_offered_newest_first(make_run, complete: Complete) -> None:
    old, new = make_run(minutes_ago=9.0), make_run(minutes_ago=1.0)
    other = make_run(name="pong", minutes_ago=5.0)
    assert complete("status", "") == [new.run_id, other.run_id, old.run_id]
    assert complete("stop", "--yes", "po") == [other.run_id]
    assert complete("checkpoints", "verify", "po") == [other.run_id]
    assert complete("checkpoints", "") == ["list", "verify", "prune", new.run_id, other.run_id, old.run_id]


def test_a_shell_that_shows_help_is_told_how_each_run_stands(make_run, complete: Complete) -> None:
    ended, lost, living = make_run(minutes_ago=3.0), make_run(minutes_ago=2.0), make_run(minutes_ago=1.0)
    for run in (ended, lost, living):
        run.write_view()
    ended.complete(RunState.FAILED)
    living.hold_agent_lock()
    fish = {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_ARGS": "tianjictl attach "}
    told = dict(line.split("\t") for line in complete(_TIANJICTL_COMPLETE="complete_fish", **fish))
    assert told == {living.run_id: "running", lost.run_id: "lost", ended.run_id: "failed"}
    zsh = complete(_TIANJICTL_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="tianjictl attach ")
    assert f'"{lost.run_id}":"lost"' in "\n".join(zsh)


def test_components_and_hosts_are_those_of_the_run_on_the_line(make_run, complete: Complete) -> None:
    run, newer = make_run(minutes_ago=2.0), make_run(name="pong")
    assert complete("logs", run.run_id, "--component", "") == [
        "actor-0",
        "buffer-0",
        "learner-0",
        "actor",
        "buffer",
        "learner",
    ]
    assert complete("logs", "-c", "lea") == ["learner-0", "learner"]
    newer.show(components=newer.view.components[:1])
    newer.write_view()
    assert complete("logs", "-c", "") == ["actor-0", "actor"]  # as it is now, not as it began
    assert complete("logs", "--host", "") == ["localhost"]
    assert complete("scale", run.run_id, "L1A2", "--remove-host", "lo") == ["localhost"]


def test_hosts_of_the_inventory_on_the_same_line_are_offered(run, complete: Complete) -> None:
    assert complete("inventory", "show", "-i", "inv.yaml", "c") == ["cn01", "cn02"]
    assert complete("inventory", "list", "-i", "inv.yaml", "c") == []
    assert complete("inventory", "s") == ["show"]
    assert complete("scale", run.run_id, "-i", "inv.yaml", "--add-host", "") == ["cn01", "cn02", "gpu1"]
    assert complete("resume", "-i", "inv.yaml", "--head", "g") == ["gpu1"]
    several = complete("playbook", "tune", "-i", "inv.yaml", "--limit", "gpu1,")
    assert several[:2] == ["gpu1,cn01", "gpu1,cn02"]
    assert sorted(several[2:]) == ["gpu1,actors", "gpu1,all", "gpu1,ungrouped"]
    assert complete("inventory", "show", "") == ["localhost"]
    Path("inventory").mkdir()
    Path("inventory", "hosts.yaml").write_text(INVENTORY)
    assert complete("inventory", "trust", "") == ["cn01", "cn02", "gpu1"]


def test_complete_checkpoints_and_playbooks_are_offered(run, complete: Complete) -> None:
    for step, whole in ((64, True), (1024, True), (2048, False)):
        folder = run.paths.checkpoints / f"step-{step:012d}"
        folder.mkdir()
        if whole:
            (folder / "manifest.json").touch()
    assert complete("resume", run.run_id, "--from-checkpoint", "") == ["latest", "1024", "64"]
    assert complete("resume", "--from-checkpoint", "l") == ["latest"]
    Path("playbooks", "ops").mkdir(parents=True)
    Path("playbooks", "ops", "drain.yml").write_text("# Empties a host.\n- hosts: all\n")
    assert complete("playbook", "d") == ["drain"]


def test_no_line_and_no_file_can_make_it_complain(make_run, home: Path, complete: Complete) -> None:
    assert complete("status", "") == []
    run = make_run()
    for path in (run.paths.view, run.paths.plan, run.paths.record):
        path.write_text('{"components": 7}')
    Path("bad.yaml").write_text("all:\n\thosts: x\n")
    (home / "not-a-run").mkdir()
    assert complete("status", "") == [run.run_id]
    assert complete("logs", "-c", "") == []
    for words in (
        ["nonsense", ""], ["--nonsense", "x", ""], ["inventory", "show", "-i", "bad.yaml", ""],
        ["inventory", "show", "-i", "missing.yaml", ""], ["logs", "nobody", "-c", ""], ["logs", "'"],
        ["scale", "x", "y", "z", ""], ["resume", "nobody", "--from-checkpoint", "7"], ["logs", "-n", "x", "-c", "y"],
    ):  # fmt: skip
        complete(*words)
    assert complete(_TIANJICTL_COMPLETE="complete_bash") == []
    assert complete(_TIANJICTL_COMPLETE="gibberish", COMP_WORDS="x", COMP_CWORD="y") == []


def test_hundreds_of_runs_do_not_make_it_slow(home: Path, complete: Complete) -> None:
    for number in range(500):
        folder = home / f"job-20260101-{number:06d}-00aa"
        folder.mkdir()
        (folder / "view.json").write_text('{"state": "running"}')
    fish = {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_ARGS": "tianjictl status "}

    def cpu_s() -> float:
        before = os.times()
        assert len(complete(_TIANJICTL_COMPLETE="complete_fish", **fish)) == 200
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(cpu_s() for _ in range(3)) < 1.5  # 0.2 s of the processor where nothing else runs


@pytest.fixture
def shell(program: Path, place: Path) -> Iterator[Callable[[str, str], str]]:  # noqa: ARG001 - only has to be there
    """A real bash on a terminal, with the script sourced: type(text, until) gives what it shows."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    environment = {
        **os.environ, "PATH": f"{program}:{os.environ['PATH']}", "PS1": "READY> ", "TERM": "dumb", "HISTFILE": "",
        "INPUTRC": "/dev/null",
    }  # fmt: skip
    child, terminal = pty.fork()
    if child == 0:
        os.execve(bash, [bash, "--norc", "--noprofile", "-i"], environment)

    def show(until: str, within_s: float = 60.0) -> str:
        seen, deadline = "", time.monotonic() + within_s
        while not re.search(until, seen):
            left = max(0.0, deadline - time.monotonic())
            assert wait_readable(terminal, left), f"not seen within {within_s:g} s: {until!r} in {seen!r}"
            seen += os.read(terminal, 4096).decode(errors="replace")
        return seen

    def type_(text: str, until: str) -> str:
        os.write(terminal, text.encode())
        return show(until)

    show("READY> $")
    type_('set +o history; bind "set enable-bracketed-paste off"\n', "READY> $")
    script = 'eval "$(_TIANJICTL_COMPLETE=source_bash tianjictl)"; echo rc=$?\n'
    type_(script, r"rc=0[\s\S]*READY> $")
    yield type_
    os.close(terminal)
    os.waitpid(child, 0)


def test_a_real_bash_completes_a_run_and_a_host_after_an_equals_sign(run, shell: Callable[[str, str], str]) -> None:
    run.write_view()
    assert run.run_id in shell("tianjictl logs car\t", re.escape(run.run_id))
    assert "localhost " in shell(" --host=loc\t", "localhost ")
    assert "--component" in shell("--comp\t", "component ")
    assert "learner-0" in shell("learner-\t", "learner-0 ")
