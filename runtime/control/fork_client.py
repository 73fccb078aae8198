"""The agent's side of its forkserver."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

from runtime.control import fork_protocol as protocol

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.resources import Resources


#: One thread a process until the plan says otherwise: libraries read these when they are loaded.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


MOST_DESCRIPTORS = 65_536


def _allow_descriptors() -> None:
    """An actor costs its agent some seven of them, and a login shell's limit is often a thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft not in (resource.RLIM_INFINITY, wanted) and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class ForkClient:
    """Starts a forkserver and talks to it. Start it as early as possible: its imports take longest of all."""

    def __init__(self) -> None:
        _allow_descriptors()
        self._end, other = protocol.channel()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "runtime", "forkserver", str(other.fileno())],
                pass_fds=(other.fileno(),),
                stdin=subprocess.DEVNULL,
                env=os.environ | dict.fromkeys(_THREADS, "1"),
                process_group=0,  # a signal meant for the agent's group is not for the guardian
            )
        self._lifeline: tuple[int, int] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        """Readable when there is a message to receive."""
        return self._end.fileno()

    def set_up(self, root: Path, node: str, attempt: int, resume_from: Path | None, resources: Resources) -> None:
        """Hand over the run and all its descriptors; the plan lies in the folder `root`. `attempt` is the run's."""
        setup = protocol.Setup(
            root=str(root), node=node, attempt=attempt, resume_from=str(resume_from) if resume_from else None
        )
        protocol.send(self._end, setup)
        self._lifeline = os.pipe2(os.O_CLOEXEC)
        names, descriptors = resources.descriptors()
        names += ["lifeline:r", "lifeline:w"]
        protocol.send_descriptors(self._end, names, [*descriptors, *self._lifeline])

    def extend(self, names: list[str], descriptors: list[int]) -> None:
        """Hand over more of them, for all who are forked from now on; names and order as `Resources.descriptors`."""
        protocol.send_descriptors(self._end, names, descriptors)

    def forget(self, names: list[str]) -> None:
        """What is named is gone; who holds it already keeps it."""
        protocol.send_forget(self._end, names)

    def spawn(self, component: str, attempt: int, courier: protocol.CourierOrder | None = None) -> None:
        """Order a fork; answered by `Forked` or `ForkFailed`."""
        protocol.send(self._end, protocol.SpawnOrder(component=component, attempt=attempt, courier=courier))

    def kill(self) -> None:
        """End a forkserver that does not answer; it then counts as gone."""
        self._process.kill()

    def receive(self) -> protocol.Message | None:
        """The next message, None if the forkserver is gone; call when readable."""
        return protocol.receive(self._end)[0]

    def hang_up(self, timeout_s: float) -> None:
        """Dismiss the forkserver, on which it winds up and leaves; kill it if it does not."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            protocol.send(self._end, protocol.Dismiss())
        self._end.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._lifeline is not None:
            for descriptor in self._lifeline:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
            self._lifeline = None
