"""A guardian whose agent died becomes the next agent: same order, same process id, empty memory."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.components.driver import HAND_OVER
from runtime.contract.files import write_whole
from runtime.contract.model import View

if TYPE_CHECKING:
    from runtime.contract.paths import RunPaths

MOST = 3  #: so often within WITHIN_S: an agent that dies again and again is not cured by another
WITHIN_S = 300.0


class SecondLives(View):
    """When the agent of a node was replaced, by that node's wall clock."""

    at: tuple[float, ...] = ()

    def one_more(self, now: float) -> SecondLives | None:
        """With one more now; none if that would be too many."""
        recent = tuple(at for at in self.at if 0.0 <= now - at < WITHIN_S)
        return SecondLives(at=(*recent, now)) if len(recent) < MOST else None


def become_agent(paths: RunPaths, now: float) -> None:
    """Execute the node's agent in this process; returns only where that may or can not be, and says why in its log."""
    log = os.open(paths.logs / "agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    if not paths.order.exists():
        os.write(log, b"agent.died: it had no order file, so no other takes its place\n")
        return
    lives = _read(paths).one_more(now)
    if lives is None:
        os.write(log, f"agent.died: {MOST} times within {WITHIN_S:g} s: no other takes its place\n".encode())
        return
    write_whole(paths.second_lives, lives.model_dump_json())
    os.write(log, f"agent.died: another takes its place, number {len(lives.at)} of {MOST}\n".encode())
    null = os.open(os.devnull, os.O_RDONLY)
    for standard, descriptor in enumerate((null, log, log)):
        os.dup2(descriptor, standard)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (HAND_OVER,))
    os.closerange(3, max(4096, os.sysconf("SC_OPEN_MAX")))  # all that the last agent's components shared
    os.execv(sys.executable, [sys.executable, "-m", "runtime", "agent", "--order", str(paths.order)])


def _read(paths: RunPaths) -> SecondLives:
    try:
        return SecondLives.model_validate_json(paths.second_lives.read_bytes())
    except (FileNotFoundError, ValidationError):
        return SecondLives()  # none yet; and one that cannot be read must not keep a node from coming back
