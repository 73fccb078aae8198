"""Single key presses while something else is on the screen, and what Ctrl-C means to an attached terminal."""

from __future__ import annotations

import os
import signal
import sys
import termios
import time
import tty
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from runtime.contract.waiting import wait_readable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

AGAIN_WITHIN_S = 2.0


class CtrlC:
    """Counts presses: the first shows where things stand, one more within 2 s stops the training."""

    def __init__(self) -> None:
        self._presses: list[float] = []
        self._last: float | None = None

    def press(self, now: float) -> None:
        """Note a press at `now` (monotonic seconds); safe inside a signal handler."""
        self._presses.append(now)

    def decide(self) -> Literal["show", "stop"] | None:
        """What the presses since the last call ask for; none without a press."""
        wanted: Literal["show", "stop"] | None = None
        while self._presses:
            now = self._presses.pop(0)
            again = self._last is not None and now - self._last <= AGAIN_WITHIN_S
            wanted = "stop" if again or wanted == "stop" else "show"
            self._last = now
        return wanted


@contextmanager
def counted_interrupts() -> Iterator[CtrlC]:
    """Within the block Ctrl-C is counted instead of raised."""
    presses = CtrlC()

    def note_press(_number: int, _frame: FrameType | None) -> None:
        presses.press(time.monotonic())

    before = signal.signal(signal.SIGINT, note_press)
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, before)


class Keyboard:
    """Key presses from a terminal, or a mere clock where there is none."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def key(self, timeout_s: float) -> str | None:
        """The key pressed within `timeout_s`, if any; always waits that long at most."""
        if self._descriptor is None:
            time.sleep(timeout_s)
            return None
        if not wait_readable(self._descriptor, timeout_s):
            return None
        pressed = os.read(self._descriptor, 1)
        if not pressed:  # the terminal has hung up
            self._descriptor = None
            return None
        return pressed.decode("latin-1")


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """Single keys without echo for as long as the block lasts; the terminal is put back whatever happens."""
    if sys.stdin is None or not sys.stdin.isatty():
        yield Keyboard(None)
        return
    descriptor = sys.stdin.fileno()
    if _in_background(descriptor):
        yield Keyboard(None)  # in the background of a shell: reading keys would suspend this process
        return
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield Keyboard(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _in_background(descriptor: int) -> bool:
    """Whether another process group has the terminal; one that controls nobody's session may be read by anyone."""
    try:
        return os.tcgetpgrp(descriptor) != os.getpgrp()
    except OSError:
        return False
