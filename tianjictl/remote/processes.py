"""Processes on a host that outlive the connection: started detached, known by pid and start time, ended by group.

What must not outlive it is simply run: `Connection.run` ends with the connection.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tianjictl.errors import TianjiError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tianjictl.remote.base import Connection

# The new session's shell tells its own line of /proc and becomes the program; pid and start time stay the same.
# $1 folder, $2 log, then NAME=VALUE words up to "--", then the program.
_START = """tj_path() { case "$1" in "~/"*) printf "%s" "$HOME/${1#??}" ;; *) printf "%s" "${1:-$HOME}" ;; esac; }
cd -- "$(tj_path "$1")" || exit 1
tj_log=$(tj_path "$2"); shift 2
: >>"$tj_log" || exit 1
while [ "$1" != -- ]; do export "$1"; shift; done
shift
command -v -- "$1" >/dev/null || { echo "there is no program $1" >&2; exit 127; }
tj_said=$(setsid /bin/sh -c 'read -r line </proc/$$/stat; printf "%s\\n" "$line" >&4; exec "$@" 4>&-' sh "$@" \\
    4>&1 </dev/null >>"$tj_log" 2>&1 &)
printf "%s\\n" "$tj_said"
"""
# $1 pid, $2 start time: exit status 0 alive, 1 gone (or another process has its number now)
_ALIVE = """read -r tj_line 2>/dev/null <"/proc/$1/stat" || exit 1
set -- "$1" "$2" ${tj_line##*) }
[ "$3" != Z ] && [ "${22}" = "$2" ]
"""
# $1 pid, $2 start time, $3 TERM or KILL, $4 tenths of a second to wait for its end
_SIGNAL = (
    """tj_alive() (
"""
    + _ALIVE.replace("exit 1", "return 1")
    + """)
tj_alive "$1" "$2" || exit 0
kill -s "$3" -- "-$1" || exit 2
tj_left=$4
while tj_alive "$1" "$2"; do
[ "$tj_left" -gt 0 ] || exit 1
tj_left=$((tj_left - 1)); sleep 0.1
done
"""
)


@dataclass(frozen=True, slots=True)
class Detached:
    """A process of a host, told apart from any later one with its number by when it started."""

    host: str
    pid: int
    group: int
    started_ticks: int  #: clock ticks after the host's boot


def start_detached(
    connection: Connection,
    argv: Sequence[str],
    *,
    log: str,
    folder: str = "",
    environment: Mapping[str, str] | None = None,
) -> Detached:
    """Start a program in a session of its own, output appended to `log`; it stays when the connection goes.

    `folder` is where it runs (the user's home if empty), and what a relative `log` is relative to.
    TianjiError where it cannot be started.
    """
    words = [f"{name}={value}" for name, value in (environment or {}).items()]
    done = connection.run(_START, folder, log, *words, "--", *argv)
    if done.status != 0:
        raise TianjiError(f"{connection.host}: {argv[0]} cannot be started: {done.complaint}")
    return parse_stat(done.text, connection.host)


def is_alive(connection: Connection, process: Detached) -> bool:
    """Whether that very process is still there."""
    return connection.run(_ALIVE, str(process.pid), str(process.started_ticks)).status == 0


def end_detached(connection: Connection, process: Detached, grace_s: float = 5.0) -> bool:
    """TERM to its group, after `grace_s` KILL; whether it is gone. Another process with its number is left alone."""
    for signal, wait_s in (("TERM", grace_s), ("KILL", 5.0)):
        tenths = str(math.ceil(wait_s * 10))
        args = (str(process.pid), str(process.started_ticks), signal, tenths)
        if connection.run(_SIGNAL, *args, timeout_s=wait_s + 30).status == 0:
            return True
    return False


def parse_stat(line: str, host: str) -> Detached:
    """A process from its line in /proc/PID/stat; the second field is a name that may hold blanks and brackets."""
    pid, _, rest = line.partition(" ")
    fields = rest.rpartition(")")[2].split()
    if not pid.isdigit() or len(fields) < 20:
        raise TianjiError(f"{host}: not a line of /proc/PID/stat: {line[:100]!r}")
    return Detached(host, int(pid), int(fields[2]), int(fields[19]))
