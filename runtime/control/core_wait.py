"""How long a process was ready to run while its core was another's."""

from __future__ import annotations

from pathlib import Path

_WAKE_UP_S = 10e-6  #: the usual pause of a wake-up, which is nobody's fault


def waited_s(pid: int) -> float:
    """Seconds so far that the process's first thread was ready and did not run; 0 where the kernel does not tell.

    An estimate: pauses of wake-ups are taken off as usual ones, so it may go back a little.
    """
    try:
        waited_ns, turns = map(int, Path(f"/proc/{pid}/schedstat").read_text().split()[1:3])
    except (OSError, ValueError):
        return 0.0
    return max(0.0, waited_ns / 1e9 - turns * _WAKE_UP_S)
