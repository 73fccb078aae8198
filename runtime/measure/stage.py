"""Components of a plan as a run has them: processes over shared memory, pinned and driven alike, without an agent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from runtime import wiring as names
from runtime.assembly import Assembly
from runtime.components.driver import HAND_OVER, ExitReport
from runtime.contract.paths import RunPaths
from runtime.control.core_wait import waited_s
from runtime.control.process import COMPONENT_NICENESS, RunOnNode, run_component
from runtime.measure.clocking import pin
from runtime.memory.board import BoardReader, BoardWriter
from runtime.memory.control import Command
from runtime.memory.ring import read_ledger
from runtime.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from runtime.contract.plan import Plan
    from runtime.memory.ring import Ledger

_PR_SET_PDEATHSIG = 1
_LEAVES_WITHIN_S = 2.0
_LOOK_EVERY_S = 0.002


class MeasureError(Exception):
    """Nothing can be measured, and why."""


@dataclass(frozen=True, slots=True)
class _Child:
    name: str
    pid: int


class Stage:
    """One plan's memory on this node, and those of its components that were asked for. A context manager: whoever was
    started leaves with the block."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self._paths = RunPaths(Path(tempfile.mkdtemp(prefix="measure-", dir=folder)))
        self._paths.logs.mkdir()
        self._paths.plan.write_text(plan.model_dump_json())
        self.resources = Resources.create(names.wire(plan, plan.head), shared=True)
        self.assembly = Assembly(plan, plan.head, self.resources, self._paths, run_attempt=1, resume_from=None)
        self._lifeline = os.pipe()
        self._children: dict[str, _Child] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, *components: str) -> None:
        """Each in a process of its own, by the very code that a run starts it with."""
        run = RunOnNode(self._paths, self.plan.head, 1, None)
        for name in components:
            self._fork(name, partial(run_component, name, 1, run, self.resources, self._lifeline[0]))

    def beside(self, name: str, cores: Sequence[int], life: Callable[[], object]) -> None:
        """A process that is no component: `life` runs on `cores`, at the components' priority."""

        def live() -> int:
            os.nice(COMPONENT_NICENESS)
            pin(cores)
            life()
            return 0

        self._fork(name, live)

    def _fork(self, name: str, live: Callable[[], int]) -> None:
        pid = os.fork()
        if pid:
            self._children[name] = _Child(name, pid)
            return
        code = 70
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_BLOCK, (HAND_OVER,))
            os.close(self._lifeline[1])
            code = live()
        except BaseException as error:  # a forked copy must not unwind into the parent's code
            os.write(2, f"{name}: {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)

    def cpu_s(self, *children: str) -> float:
        """Processor time that these have used so far, all of their threads together."""
        return sum(cpu_s_of(self._children[name].pid) for name in children)

    def stolen_s(self, child: str) -> float:
        """For how long it was ready to run so far, and strangers had its core or a quota was used up: on a core of its
        own it waits for none of its own kind."""
        return waited_s(self._children[child].pid)

    def count(self, component: str, counter: str) -> int:
        """A counter of a component."""
        return int(self.assembly.block(component).get(counter))

    def ledger(self, actor: str) -> Ledger:
        """What became of an actor's fragments."""
        ring = names.fragments_ring(actor)
        return read_ledger(self.resources.segment(ring), self.assembly.wiring.rings[ring])

    def policy(self) -> np.ndarray | None:
        """The parameters that the learner published last; none where it has not."""
        board = self.assembly.wiring.boards[names.policy_board(0)]
        views = board.layout.views(memoryview(bytearray(board.layout.nbytes)))
        reader = BoardReader(self.resources.segment(board.name), board)
        return None if reader.read({"params": views["params"]}) is None else views["params"]

    def publish(self, params: np.ndarray) -> None:
        """Put parameters on the policy board, in place of a learner that is no process."""
        board = self.assembly.wiring.boards[names.policy_board(0)]
        woken = [
            self.resources.event(f"{board.name}:{name}") for name in self.assembly.wiring.board_readers[board.name]
        ]
        writer = BoardWriter(self.resources.segment(board.name), board, readers=woken)
        for name, field in writer.begin().items():
            field[...] = params if name != "progress" else 0
        writer.publish(writer.version + 1)

    def wait_for(self, true: Callable[[], bool], timeout_s: float) -> bool:
        """Look until it is true or the time is over; MeasureError where one of the processes has ended meanwhile."""
        deadline = time.monotonic() + timeout_s
        while not true():
            self.look_after()
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_EVERY_S)
        return True

    def look_after(self) -> None:
        """MeasureError where one of the processes has ended."""
        for child in list(self._children.values()):
            pid, _ = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                del self._children[child.name]
                raise MeasureError(f"{child.name} ended while it was measured: {self._last_words(child.name)}")

    def _last_words(self, name: str) -> str:
        try:
            return ExitReport.model_validate_json(self._paths.exit_report(name, 1).read_bytes()).reason
        except (OSError, ValueError):
            return "it left no word"

    def close(self) -> None:
        """Tell all to leave, which closes their environments; kill whoever does not."""
        self.assembly.control.command = Command.STOP
        deadline = time.monotonic() + _LEAVES_WITHIN_S
        for child in self._children.values():
            if child.name not in self.assembly.wiring.components:
                os.kill(child.pid, signal.SIGKILL)
            _see_out(child.pid, deadline)
        self._children.clear()
        for end in self._lifeline:
            os.close(end)
        self.resources.close()
        shutil.rmtree(self._paths.root, ignore_errors=True)


def cpu_s_of(pid: int) -> float:
    """Processor time of another process, by its clock as clock_getcpuclockid(3) makes it on Linux."""
    return time.clock_gettime((~pid << 3) | 2)


def _see_out(pid: int, deadline: float) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(_LOOK_EVERY_S)
