"""The live screen fits its terminal, and progress never gets into its own way."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from rich.console import Console, Group

from runtime.contract.states import ComponentState, RunState
from runtime.contract.view import Bottleneck
from tianjictl.cli.screen import fitting, screen
from tianjictl.runs.client import Picture, nobody_there


def shown(parts: object, width: int = 100) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=500)
    with console.capture() as captured:
        console.print(Group(*parts))  # type: ignore[misc]
    return captured.get().splitlines()


@pytest.mark.parametrize("height", [60, 30, 24, 21])
@pytest.mark.parametrize("width", [60, 120])
def test_the_live_screen_never_outgrows_the_terminal_and_always_shows_the_keys(run, height, width):
    console = Console(file=io.StringIO(), width=width, height=height)
    picture = Picture(run.view, 0.0, live=True, ended=False)
    lines = shown(fitting(picture, console, "d detaches"), width)
    least = shown(screen(picture, events=0, keys="d detaches", width=width), width)
    assert len(lines) < height or lines == least
    assert any(line.startswith("d detaches") for line in lines[:4])
    if height == 60:
        assert "event 24" in lines[-1]


@pytest.mark.parametrize("width", [30, 45, 60, 80, 120])
def test_a_narrow_terminal_has_fewer_columns_and_never_broken_ones(run, width):
    picture = Picture(run.view, 0.0, live=True, ended=False)
    lines = shown(screen(picture, width=width), width)
    [head] = [line for line in lines if line.startswith("component  state")]
    assert head.split()[:2] == ["component", "state"]
    assert ("cores" in head) == (width >= 60)
    for name in ("actor-0", "buffer-0", "learner-0"):
        [row] = [line for line in lines if line.startswith(f"{name} ")]
        assert "running" in row
    assert "reason" not in head, "there is none to tell"


def test_what_has_left_shows_neither_heartbeat_nor_work(run):
    view = nobody_there(run.view)
    assert {component.state for component in view.components} == {ComponentState.EXITED}
    assert all(c.heartbeat_age_s is None and c.pid is None and c.reason == "" for c in view.components)


def test_the_bottleneck_tells_its_times_once(run):
    advice = "the learner is the limit (busy 97%; T_sp 61 ms, 2 × T_rv 0.8 ms): give it cores or add a group"
    for said in (advice, ""):
        found = Bottleneck(side="learner", t_sp_s=0.061, t_rv_s=0.0004, n_actors=2, advice=said)
        picture = Picture(run.view.model_copy(update={"bottleneck": found}), 0.0, live=True, ended=False)
        [line] = [line for line in shown(screen(picture), 200) if line.startswith("bottleneck")]
        assert line.count("T_sp") == 1


class Terminal:
    """A command on a pseudo-terminal."""

    def __init__(self, *words: str, **environment: str) -> None:
        self.screen, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tianjictl.cli.main", *words],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40", "LC_ALL": "C.UTF-8", **environment},
        )  # fmt: skip
        os.close(theirs)
        self.text = ""

    def until(self, words: str, timeout_s: float = 10.0) -> str:
        deadline = time.monotonic() + timeout_s
        while words not in self.text and time.monotonic() < deadline:
            try:
                self.text += os.read(self.screen, 65536).decode()
            except OSError:  # the other end is closed
                break
        assert words in self.text, self.text
        return self.text

    def rest(self) -> str:
        while True:
            try:
                self.text += os.read(self.screen, 65536).decode()
            except OSError:  # the other end is closed
                return self.text


@pytest.fixture
def terminal() -> Iterator[type[Terminal]]:
    made: list[Terminal] = []

    class Kept(Terminal):
        def __init__(self, *words: str, **environment: str) -> None:
            super().__init__(*words, **environment)
            made.append(self)

    yield Kept
    for each in made:
        each.process.kill()
        each.process.wait()
        os.close(each.screen)


def test_sigterm_leaves_the_run_alone_and_the_terminal_as_it_was(run, terminal):
    run.show(reason="a → b × c")
    run.serve()
    attached = terminal("attach")
    text = attached.until("Ctrl-C shows the status")
    attached.until("a → b × c")
    attached.process.send_signal(signal.SIGTERM)
    text = attached.rest()
    assert attached.process.wait(10) == 130
    assert "training goes on\r\n" in text
    assert f" tianjictl attach {run.run_id}" in text.rpartition("hint:")[2]
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is back"
    assert run.requests
    assert all(type(request).__name__ == "ViewRequest" for request in run.requests)


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_every_way_of_leaving_the_watch_is_quiet(run, terminal, key):
    run.serve()
    watching = terminal("status", "--watch")
    watching.until("q leaves")
    os.write(watching.screen, key.encode())
    if key == "\x03":  # the terminal has no job control here: the line discipline has nobody to signal
        watching.process.send_signal(signal.SIGINT)
    text = watching.rest()
    assert watching.process.wait(10) == 0
    assert "error" not in text
    assert text.rstrip().endswith("training goes on")


def test_lines_that_stay_never_share_a_line_with_the_spinner(run, terminal):
    run.complete(RunState.STOPPED, "by hand")
    run.write_view()
    lines = terminal("resume", "--from-checkpoint").rest()
    for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "\r", lines)):
        assert "error:" not in line or line.startswith("error:")
