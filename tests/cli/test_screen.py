"""The live screen fits its terminal, and progress never gets into its own way."""

from __future__ import annotations

import codecs
import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator

import pytest
from rich.console import Console, Group

from runtime.contract.states import ComponentState, RunState
from runtime.contract.view import Bottleneck, HostView, LinkView
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
        # A letter of several bytes may come in two pieces.
        self._letters = codecs.getincrementaldecoder("utf-8")()

    def until(self, words: str, timeout_s: float = 60.0) -> str:
        deadline = time.monotonic() + timeout_s
        while words not in self.text and time.monotonic() < deadline:
            try:
                self.text += self._letters.decode(os.read(self.screen, 65536))
            except OSError:  # the other end is closed
                break
        assert words in self.text, self.text
        return self.text

    def until_frame(self, right: Callable[[list[str]], bool], timeout_s: float = 60.0) -> None:
        """Until the other screen is drawn anew so that its rows are right."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.text += self._letters.decode(os.read(self.screen, 65536))
            drawn = self.text.split("\x1b[H")[1:]
            if any(right(re.split(r"[\r\n]+", re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", frame))) for frame in drawn[-3:]):
                return
        raise AssertionError(self.text)

    def rest(self) -> str:
        while True:
            try:
                self.text += self._letters.decode(os.read(self.screen, 65536))
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


LEFT = "\x1b[?1049l"  #: back to the screen with the lines of the shell


def test_a_terminal_that_changes_its_size_while_attached_keeps_nothing_of_the_old_picture(run, terminal):
    run.serve()
    attached = terminal("attach", COLUMNS="", LINES="")
    for columns, rows in ((80, 24), (40, 10), (120, 40)):
        fcntl.ioctl(attached.screen, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # Whole, from the corner of the other screen on, every cell of it.
        attached.until_frame(lambda rows_, c=columns, r=rows: len(rows_) == r and all(len(row) == c for row in rows_))
    attached.process.send_signal(signal.SIGINT)
    attached.until("press Ctrl-C again within 2 s")
    os.write(attached.screen, b"d")
    text = attached.rest()
    assert attached.process.wait(10) == 0
    assert text.count("\x1b[?1049h") == text.count(LEFT) == 1
    before, _, after = text.rpartition(LEFT)
    assert "\x1b[2J" in before[-40:], "nothing that the terminal could take along"
    assert "detached; training goes on" in after
    assert "every component is there" not in after


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_every_way_of_leaving_the_watch_is_quiet(run, terminal, key):
    run.serve()
    watching = terminal("status", "--watch")
    watching.until("every component is there")
    os.write(watching.screen, key.encode())
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


def test_hosts_and_links_of_a_run_over_many_nodes_are_told_with_what_is_wrong(run):
    hosts = (
        HostView(name="cn01", state="connected", heartbeat_age_s=0.1, cores=(0, 1, 2), head=True),
        HostView(name="cn02", state="lost", heartbeat_age_s=4.0, clock_offset_s=-2.5, reason="not heard of for 2.5 s"),
    )
    links = (
        LinkView(
            source="cn02", target="cn01", transport="tcp", mb_per_s=12.34, state="up", wan=True, saved_bytes=3 << 20
        ),
        LinkView(
            source="cn01", target="cn02", transport="tcp", mb_per_s=0, state="lost", reason="cn02 is away", joins=3
        ),
    )
    view = run.view.model_copy(update={"hosts": hosts, "links": links})
    lines = "\n".join(shown(screen(Picture(view, 0.0, live=True, ended=False), width=160), 160))
    assert "cn01 (head) connected on CPUs 0-2, heard 0.1 s ago" in lines
    assert "cn02 lost, heard 4.0 s ago, its clock 2.5 s behind: not heard of for 2.5 s" in lines
    assert "cn02 → cn01 up, tcp 12.3 MB/s, wan, 3 MiB saved" in lines
    assert "cn01 → cn02 lost, tcp, joined 3 times: cn02 is away" in lines


def test_of_many_links_only_those_with_something_to_tell_have_a_line(run):
    links = tuple(
        LinkView(source=f"n{n}", target="n0", transport="tcp", mb_per_s=2.0, state="up" if n != 4 else "joining")
        for n in range(1, 9)
    )
    view = run.view.model_copy(update={"links": links})
    lines = [line for line in shown(screen(Picture(view, 0.0, live=True, ended=False))) if line.startswith("link")]
    assert [line.split(maxsplit=1)[1].rstrip() for line in lines] == [
        "n4 → n0 joining, tcp",
        "7 more are up by tcp, 14.0 MB/s in all",
    ]
