"""Other processes of a measurement: busy neighbours, and learners with more threads than this process may have."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from runtime.measure.clocking import pin

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PR_SET_PDEATHSIG = 1


@contextmanager
def busy_neighbours(cores: Sequence[int], begin: Callable[[], Callable[[], object]]) -> Iterator[None]:
    """Keep one forked process busy on each core for the length of the block, which starts once all are.

    `begin` is called in the new process and returns the work, which is done over and over there.
    """
    ready, say_ready = os.pipe()
    children: list[int] = []
    try:
        for core in cores:
            child = os.fork()
            if child == 0:
                _work_for_ever(core, begin, say_ready)
            children.append(child)
        os.close(say_ready)
        say_ready = -1
        for _ in children:
            if not os.read(ready, 1):
                break  # a neighbour failed to start and has said why: measured with fewer
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os.close(ready)
        if say_ready >= 0:
            os.close(say_ready)


def _work_for_ever(core: int, begin: Callable[[], Callable[[], object]], say_ready: int) -> None:
    """The neighbour's life; it never returns, and dies with the process that measures."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        pin((core,))
        work = begin()
        work()
        os.write(say_ready, b"x")
        while True:
            work()
    except BaseException as error:  # a forked copy must not unwind into the parent's code
        os.write(2, f"a busy neighbour failed: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(1)


def with_threads(arguments: Sequence[str], threads: int, *, timeout_s: float) -> str:
    """Standard output of `python -m runtime.measure` with `threads` BLAS threads, a number fixed when numpy loads."""
    environment = os.environ | dict.fromkeys(_THREADS, str(threads))
    done = subprocess.run(
        [sys.executable, "-m", "runtime.measure", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=timeout_s,
        check=True,
    )
    return done.stdout
