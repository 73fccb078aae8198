"""The mark that every process of a run carries: its run id, in the environment that the kernel shows of it.

An agent and its forkserver are started before the run has an id, and what a process forks shows the environment that
its ancestor was executed with. So they are started with room for the mark, and write it there once the id is known.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

RUN_ID_VARIABLE = "TIANJI_RUN_ID"
ROOM = "." * 128  #: the value of the variable until the id is known; ids are shorter


def mark_process(run_id: str) -> None:
    """Make this process, and all that it forks or executes from now on, show `run_id` in `/proc/PID/environ`.

    Where the process was executed without room for the mark, only what it executes later will show it. ValueError
    for an id that is too long.
    """
    value = run_id.encode()
    if len(value) > len(ROOM):
        raise ValueError(f"the run id {run_id!r} is longer than {len(ROOM)} bytes")
    if os.environ.get(RUN_ID_VARIABLE) == ROOM:
        libc = ctypes.CDLL(None)
        libc.getenv.restype = ctypes.c_void_p
        # The C library still points at the strings the kernel put on the stack: those that /proc shows.
        place = libc.getenv(RUN_ID_VARIABLE.encode())
        if place and ctypes.string_at(place) == ROOM.encode():
            ctypes.memmove(place, value.ljust(len(ROOM), b"\0"), len(ROOM))
    os.environ[RUN_ID_VARIABLE] = run_id


def carries_mark(pid: int, run_id: str) -> bool:
    """Whether the process shows the run id; False also where it has left or is not ours to look at."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{RUN_ID_VARIABLE}={run_id}".encode() in environment.split(b"\0")
