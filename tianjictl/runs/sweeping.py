"""What is left of a run on a node: known by the run id in its environment alone, ended, looked for again.

The same as `tianjictl.runs.processes` does here, as a script: a node whose Python is broken can be swept too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from runtime.contract.run_mark import RUN_ID_VARIABLE
from tianjictl.errors import TianjiError
from tianjictl.runs.processes import RunProcess

if TYPE_CHECKING:
    from tianjictl.remote.base import Connection

NODE_VARIABLE = "TIANJI_NODE"  #: in the environment of every process of a node that was started over an inventory
How = Literal["look", "ask", "end", "kill"]

# $1 NAME=run id, $2 what to do, $3 tenths of a second to wait for the end of everything, $4 NAME=node or "" for all.
# ask: TERM to the agents, who know how to end what they started; end: TERM to all; kill: KILL, again and again, as an
# agent or its guardian may have replaced what was killed before it.
_SWEEP = """tj_node=$4
tj_found() {
set -- $(grep -lzsxF -e "$1" /proc/[0-9]*/environ)
[ "$#" -gt 0 ] || return 0
[ -z "$tj_node" ] || set -- $(grep -lzsxF -e "$tj_node" "$@")
[ "$#" -eq 0 ] || printf '%s\\n' "$@" | tr -dc '0-9\\n'
}
tj_agent() { tr '\\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -q -e ' -m runtime agent'; }
tj_signal() { for tj_pid in $tj_pids; do kill -s "$1" "$tj_pid" 2>/dev/null; done; }
tj_left=$3
tj_pids=$(tj_found "$1")
case $2 in
ask)
tj_told=
for tj_pid in $tj_pids; do tj_agent "$tj_pid" && kill -s TERM "$tj_pid" 2>/dev/null && tj_told=y; done
[ -n "$tj_told" ] || tj_signal TERM
tj_signal CONT ;;
end) tj_signal TERM; tj_signal CONT ;;
esac
while [ -n "$tj_pids" ]; do
[ "$2" != kill ] || tj_signal KILL
[ "$tj_left" -gt 0 ] || break
tj_left=$((tj_left - 1)); sleep 0.1
tj_pids=$(tj_found "$1")
done
[ "$2" != kill ] || tj_pids=$(tj_found "$1")
for tj_pid in $tj_pids; do printf '%s %s\\n' "$tj_pid" "$(tr '\\0' ' ' 2>/dev/null <"/proc/$tj_pid/cmdline")"; done
"""


def sweep(
    connection: Connection, run_id: str, how: How, wait_s: float = 0.0, *, node: str | None = None
) -> tuple[RunProcess, ...]:
    """Signal what carries the run's id, wait up to `wait_s` for its end, and return what is there all the same.

    `node` is for a machine that is several nodes of a run: only what belongs to that one is touched.
    """
    tenths = str(math.ceil(wait_s * 10))
    mine = f"{NODE_VARIABLE}={node}" if node else ""
    done = connection.run(_SWEEP, f"{RUN_ID_VARIABLE}={run_id}", how, tenths, mine, timeout_s=wait_s + 30)
    if done.status not in (0, 1):
        raise TianjiError(f"{connection.host}: stop: its processes cannot be looked at: {done.complaint}")
    words = (line.partition(" ") for line in done.text.splitlines())
    host = connection.host
    return tuple(RunProcess(int(pid), command.strip() or "?", host) for pid, _, command in words if pid.isdigit())
