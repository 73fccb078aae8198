"""The viewer on a pseudo-terminal, over a real run: what it shows, what it leaves behind, and that the run goes on."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.contract.operator import Difference
from runtime.contract.record import RunRecord
from runtime.contract.waiting import wait_readable
from support.cells import Cells
from support.running import ENDLESS, LiveRun
from tianjictl.runs.registry import Run
from tianjictl.tui.actions import RunActions

JOB = Path(__file__).resolve().parents[2] / "playbooks" / "train" / "cartpole-ppo.yaml"
ALTERNATE, NORMAL = "\x1b[?1049h", "\x1b[?1049l"
HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"
BREAKS = """
import sys
from tianjictl.cli.main import main
from tianjictl.tui.views.frame import Drawing
drawn = Drawing.draw
frames = 0
def draw(*given):
    global frames
    frames += 1
    if frames > 3:
        raise RuntimeError("made to fail")
    return drawn(*given)
Drawing.draw = draw
sys.exit(main(sys.argv[1:]))
"""


class Terminal:
    """A command on a pseudo-terminal of 120×40 cells."""

    def __init__(
        self, home: Path, *words: str, program: tuple[str, ...] = ("-m", "tianjictl"), **environment: str
    ) -> None:
        self._screen, self.theirs = pty.openpty()
        self._be_of(120)
        self.before = termios.tcgetattr(self.theirs)
        known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, *program, *words],
            stdin=self.theirs, stdout=self.theirs, stderr=self.theirs, start_new_session=True,
            env={**known, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "TIANJICTL_HOME": str(home), **environment},
        )  # fmt: skip
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def _read(self) -> None:
        self.text += self._decoder.decode(os.read(self._screen, 1 << 16))

    def until(self, met: Callable[[str], bool], within_s: float = 45.0) -> str:
        """What has been written by the time `met` holds for it."""
        deadline = time.monotonic() + within_s
        while not met(self.text):
            assert time.monotonic() < deadline, self.text[-3000:]
            if wait_readable(self._screen, 0.2):
                self._read()
        return self.text

    def _be_of(self, columns: int) -> None:
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def until_quiet(self, for_s: float = 0.5) -> None:
        """Until nothing more comes; what is under way when a key is pressed is still shown."""
        while wait_readable(self._screen, for_s):
            self._read()

    def resize(self, columns: int) -> None:
        self._be_of(columns)
        self.process.send_signal(signal.SIGWINCH)

    def press(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def left(self, within_s: float = 30.0) -> int:
        """The exit code, and all that was written until then."""
        deadline = time.monotonic() + within_s
        while self.process.poll() is None or wait_readable(self._screen, 0.0):
            assert time.monotonic() < deadline, self.text[-3000:]
            if wait_readable(self._screen, 0.05):
                self._read()
        return self.process.returncode

    @property
    def is_as_before(self) -> bool:
        """Echo and line editing are back, the normal screen is shown, and the cursor with it."""
        cooked = termios.tcgetattr(self.theirs) == self.before
        return cooked and self.text.rfind(NORMAL) > self.text.rfind(ALTERNATE) and (
            self.text.rfind(SHOWN) > self.text.rfind(HIDDEN)
        )  # fmt: skip

    @property
    def said(self) -> str:
        """What stands on the normal screen after the viewer."""
        return self.text.rpartition(NORMAL)[2]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._screen)
        os.close(self.theirs)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRun]:
    made = LiveRun(tmp_path_factory.mktemp("home"), JOB, *ENDLESS, "distributed.actors=1", "env.num_envs=8")
    yield made
    made.stop()


@pytest.fixture
def terminal(run: LiveRun) -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def open_one(*words: str, **options: object) -> Terminal:
        made.append(Terminal(run.home, *words, **options))  # type: ignore[arg-type]
        return made[-1]

    yield open_one
    for each in made:
        each.close()


def is_shown(text: str) -> bool:
    return ALTERNATE in text and "what limits it" in text and "learner-0" in text


@pytest.mark.parametrize("words", [("top",), ("status", "--watch")], ids=" ".join)
def test_the_screen_appears_and_q_leaves_a_run_that_goes_on(run, terminal, words):
    viewer = terminal(*words)
    viewer.until(is_shown)
    viewer.press("q")
    assert viewer.left() == 0
    assert viewer.is_as_before
    assert viewer.said.strip().endswith("training goes on")
    assert "\x1b[?1000h" not in viewer.text, "the mouse is the terminal's own"
    run.wait_for_updates()


def test_many_changes_add_up_to_the_screen_that_is_painted_as_a_whole(terminal):
    viewer = terminal("top", "--refresh", "0.05")
    viewer.until(is_shown)
    viewer.until(lambda text: text.count("\x1b[1;1H") > 40)
    viewer.press(" ")
    viewer.until(lambda text: "PAUSED" in text)
    viewer.until_quiet()
    changed = Cells(120, 40).take(viewer.text)
    assert "what limits it" in "\n".join(changed.text)
    viewer.resize(100)
    viewer.until(lambda text: Cells(120, 40).take(text).text[0][:100].endswith("PAUSED  overview"))
    before = len(viewer.text)
    viewer.resize(120)
    viewer.until(lambda text: Cells(120, 40).take(text[before:]).rows == changed.rows)
    viewer.press("q")
    assert viewer.left() == 0


def test_a_viewer_that_is_killed_leaves_the_run_running(run, terminal):
    viewer = terminal("top", "--refresh", "0.1")
    viewer.until(is_shown)
    viewer.process.kill()
    assert viewer.left() == -signal.SIGKILL
    run.wait_for_updates()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_viewer_that_is_ended_puts_the_terminal_back(run, terminal, number):
    viewer = terminal("top")
    viewer.until(is_shown)
    viewer.process.send_signal(number)
    assert viewer.left() == 130
    assert viewer.is_as_before
    assert f"the viewer was ended by {number.name}; training goes on" in viewer.said
    run.wait_for_updates()


def test_a_viewer_that_crashes_puts_the_terminal_back_and_says_that_training_goes_on(run, terminal):
    viewer = terminal("top", "--refresh", "0.1", program=("-c", BREAKS))
    assert viewer.left(45) == 1
    assert viewer.is_as_before
    assert "the viewer failed (RuntimeError: made to fail); training goes on" in viewer.said
    assert "Traceback" not in viewer.text
    run.wait_for_updates()


def test_a_checkpoint_is_written_from_the_screen(run, terminal):
    viewer = terminal("top", NO_COLOR="1")
    viewer.until(is_shown)
    before = len(run.events("checkpoint.written"))
    viewer.press("c")
    viewer.until(lambda text: "write a checkpoint now?" in text)
    viewer.press("\t\r")
    viewer.until(lambda text: "wrote checkpoint" in text)
    assert len(run.events("checkpoint.written")) > before
    viewer.press("q")
    assert viewer.left() == 0
    assert not any(f"\x1b[{colour}m" in viewer.text for colour in range(31, 37)), "NO_COLOR is heeded"


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}], ids=["dumb"])
def test_a_dumb_terminal_gets_plain_lines(terminal, environment):
    viewer = terminal("top", **environment)
    viewer.until(lambda text: text.count("env") or text.count(" steps (") >= 1)
    assert "\x1b" not in viewer.text
    viewer.press("q")
    assert viewer.left() == 0


def test_an_ascii_terminal_is_sent_nothing_but_ascii(terminal):
    viewer = terminal("top", LC_ALL="C")
    viewer.until(is_shown)
    viewer.press("x")
    viewer.until(lambda text: "shape, as in L2A8" in text)
    viewer.press("\rq")
    assert viewer.left() == 0
    assert viewer.text.isascii()


def test_a_scale_is_made_as_it_was_shown_or_else_shown_again(run):
    actions = RunActions(Run(run.paths, RunRecord.model_validate_json(run.paths.record.read_bytes())))
    shown = actions.difference("L1A2")
    assert [line.partition(" ")[0] for line in shown.starts] == ["actor-1"]
    told: list[str] = []
    assert str(actions.scale("L1A2", shown, told.append)).startswith("it is L1A2 after")
    again = actions.scale("L1A1", actions.difference("L1A3"), told.append)
    assert isinstance(again, Difference), "another change than the one that was shown"
    assert again.leaves == ("actor-1 on localhost",)
    assert isinstance(actions.scale("L1A2", shown, told.append), Difference), "the plan is another since"
    assert run.view().shape.wanted == "L1A2"
    assert len(run.events("scale.requested")) == 1
