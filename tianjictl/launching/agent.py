"""The run's agent as its launcher sees it: started early, told later what to run, or let go without a trace."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from runtime.contract.run_mark import ROOM, RUN_ID_VARIABLE
from runtime.contract.waiting import wait_readable
from tianjictl.errors import TianjiError, TimedOut

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runtime.contract.order import AgentAnswer

AGENT = (sys.executable, "-m", "runtime", "agent")


class AgentProcess:
    """An agent that loads its libraries while the launcher is still planning.

    It waits for one JSON line on its standard input and answers on its standard output; after that it needs nobody.
    It lives in a session of its own, so that no key pressed here reaches it.
    """

    def __init__(self, process: subprocess.Popen[bytes], complaints: IO[bytes]) -> None:
        self._process = process
        self._complaints = complaints  #: what it says before it has a log of its own; an unnamed file
        self._unread = b""

    @classmethod
    def start(cls, command: Sequence[str] = AGENT) -> AgentProcess:
        """Start the process; it does nothing visible until `hand_over`."""
        complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            # The run has no id yet: the agent writes it into this room, where stop will look for it.
            env=os.environ | {RUN_ID_VARIABLE: ROOM},
            start_new_session=True,
        )
        return cls(process, complaints)

    @property
    def pid(self) -> int:
        return self._process.pid

    def gone(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def hand_over(
        self, folder: Path, resume_from: Path | None, *, timeout_s: float, network: str | None = None
    ) -> AgentAnswer:
        """Name the run folder, and wait until the coordinator listens. TianjiError says why it does not.

        `network`: CIDR of the network on which agents of other nodes shall find it, none where there are none.
        """
        from runtime.contract.order import AgentOrder  # not before the agent is started, which goes first

        order = AgentOrder(run=str(folder), resume_from=str(resume_from) if resume_from else None, network=network)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(order.model_dump_json().encode() + b"\n")
            self._process.stdin.close()
        except BrokenPipeError:
            raise TianjiError(f"the agent ended before it was told what to run{self._told()}") from None
        answer = self._answer(time.monotonic() + timeout_s)
        if answer.error is not None:
            raise TianjiError(answer.error, hint=answer.hint)
        if not answer.ready:
            raise TianjiError(f"the agent answered {answer!r}, which means nothing to this version of tianjictl")
        return answer

    def abandon(self, *, timeout_s: float = 10.0) -> None:
        """Let go of an agent that was never told what to run: it leaves by itself; one that does not is ended."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            with suppress(BrokenPipeError):  # it has left already
                self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.release()

    def dismiss(self) -> None:
        """End an agent that was told what to run, whether or not it has read that yet."""
        if not self.gone():
            self._process.terminate()
        self.abandon(timeout_s=3.0)

    def release(self) -> None:
        """Close this side's ends of the conversation; the agent goes on."""
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._complaints.close()
        self._process.poll()
        # A detached agent outlives this object by design; the interpreter need not warn of it.
        self._process.returncode = self._process.returncode if self._process.returncode is not None else 0

    def _answer(self, deadline: float) -> AgentAnswer:
        from pydantic import ValidationError

        from runtime.contract.order import AgentAnswer

        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._unread:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimedOut(f"the agent did not say that it is ready in time{self._told()}")
            if not wait_readable(descriptor, remaining):
                continue
            chunk = os.read(descriptor, 65536)
            if not chunk:
                code = self._process.wait()
                raise TianjiError(f"the agent ended with exit code {code} before it was ready{self._told()}")
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            return AgentAnswer.model_validate_json(line)
        except ValidationError:
            raise TianjiError(f"the agent answered {line[:200]!r}, which is no answer") from None

    def _told(self) -> str:
        """The last lines of what the agent wrote before it had a log file."""
        size = self._complaints.seek(0, os.SEEK_END)
        self._complaints.seek(max(0, size - 4000))
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return ":\n" + "\n".join(f"  {line}" for line in lines[-15:]) if lines else ""
