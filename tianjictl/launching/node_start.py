"""An agent on a node: its folder filled, the agent started detached, its answer awaited; and the keys it needs."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.order import MPI_ABI_VARIABLE, MPIEXEC_VARIABLE, AgentAnswer, AgentOrder
from runtime.contract.paths import RunPaths
from runtime.contract.run_mark import RUN_ID_VARIABLE
from runtime.contract.version import VERSION_VARIABLE
from tianjictl.errors import Interrupted, TianjiError, TimedOut
from tianjictl.launching.staging import pack
from tianjictl.remote.processes import start_detached
from tianjictl.runs.nodes import host_of
from tianjictl.runs.sweeping import NODE_VARIABLE

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from runtime.contract.record import NodeRecord
    from tianjictl.remote.base import Connection
    from tianjictl.remote.processes import Detached

AGENT = ("-m", "runtime", "agent")
KEYS = ("agent.public", "agent.secret", "coordinator.public", "link.key")  #: what an agent of another node needs
ANSWER_WITHIN_S = 60.0
_LOOK_S = 1.0  #: how long one look for the answer lasts, and so how soon a launch that is broken off is noticed

# $1 the run's folder on the node, $2 the archive that was put, $3 "fresh" where the plan is not the node's own. Keys of
# an earlier attempt go: the head makes new ones, and another node may have been the head then.
_UNPACK = """umask 077
trap 'rm -f -- "$2"' EXIT
rm -rf -- "$1/keys"
[ "$3" != fresh ] || rm -f -- "$1/plan.json"
[ ! -e "$1/completed.json" ] || mv -f -- "$1/completed.json" "$1/completed.earlier.json"
mkdir -p -- "$1/logs" "$1/checkpoints" && rm -f -- "$1/answer.json" "$1/view.json" && tar -xzomf "$2" -C "$1"
"""
# $1 the answer's file, $2 pid, $3 start time, $4 tenths of a second. 0: answered, 1: not yet, 2: the agent is gone
_ANSWER = """tj_there() {
read -r tj_line 2>/dev/null <"/proc/$1/stat" || return 1
set -- "$1" "$2" ${tj_line##*) }
[ "$3" != Z ] && [ "${22}" = "$2" ]
}
tj_left=$4
while :; do
tj_there "$2" "$3"; tj_gone=$?
[ -s "$1" ] && exec cat -- "$1"
[ "$tj_gone" -eq 0 ] || exit 2
[ "$tj_left" -gt 0 ] || exit 1
tj_left=$((tj_left - 1)); sleep 0.1
done
"""
# $1 folder of keys, then their names
_READ_KEYS = """cd -- "$1" || exit 1
shift
for tj_key; do printf '%s ' "$tj_key"; base64 <"$tj_key" | tr -d '\\n' || exit 1; echo; done
"""
# $1 the run's folder on the node
_LAST_WORDS = """cd -- "$1/logs" 2>/dev/null || exit 0
for tj_log in coordinator.log agent.log; do [ -s "$tj_log" ] && tail -n 12 "$tj_log" | sed "s/^/${tj_log%.log}: /"; done
exit 0
"""


def fill(connection: Connection, node: NodeRecord, files: Mapping[str, bytes], *, fresh: bool) -> None:
    """Make the run's folder on a node and put `files` there, readable for their owner alone.

    With `fresh` the plan of an earlier attempt goes: a node that is not the head is sent it.
    """
    arrived = f"{node.state}/nodes/.{Path(node.folder).name}-{node.name}.tar.gz"
    connection.put(pack(dict(files)).content, arrived)
    done = connection.run(_UNPACK, node.folder, arrived, "fresh" if fresh else "")
    if done.status != 0:
        raise TianjiError(f"{node.name}: stage: {node.folder} cannot be filled: {done.complaint}")


def order_file(order: AgentOrder) -> dict[str, bytes]:
    """The order as a file of the run's folder."""
    return {RunPaths(Path(order.run)).order.name: order.model_dump_json(indent=2).encode()}


def start(connection: Connection, node: NodeRecord, run_id: str, version: str) -> Detached:
    """Start the agent of a node whose folder is filled; it says nothing yet. TianjiError where it cannot be."""
    host = host_of(node)
    environment = {RUN_ID_VARIABLE: run_id, NODE_VARIABLE: node.name, VERSION_VARIABLE: version}
    if node.pythonpath:
        environment["PYTHONPATH"] = node.pythonpath
    if host.mpiexec:
        environment[MPIEXEC_VARIABLE] = host.mpiexec
    if host.mpi_abi:
        environment[MPI_ABI_VARIABLE] = host.mpi_abi
    argv = (*AGENT, "--order", str(RunPaths(Path(node.folder)).order))
    # On this machine environments are looked for where tianjictl was called, as in a run without other nodes.
    folder = str(Path.cwd()) if host.connection == "local" else node.folder
    log = f"{node.folder}/logs/agent.log"
    return start_detached(connection, (node.python, *argv), log=log, folder=folder, environment=environment)


def answer_of(
    connection: Connection,
    node: NodeRecord,
    process: Detached,
    given_up: threading.Event,
) -> AgentAnswer:
    """What the agent answers; TianjiError where it refuses or ends, TimedOut where it says nothing in time."""
    within_s = ANSWER_WITHIN_S
    deadline = time.monotonic() + within_s
    path = str(RunPaths(Path(node.folder)).answer)
    while not given_up.is_set():
        look_s = max(0.1, min(_LOOK_S, deadline - time.monotonic()))
        done = connection.run(_ANSWER, path, str(process.pid), str(process.started_ticks), str(int(look_s * 10)))
        if done.status == 0:
            return _understood(node, done.out)
        if done.status == 2:
            raise TianjiError(f"{node.name}: start: the agent ended before it was ready{last_words(connection, node)}")
        if time.monotonic() >= deadline:
            why = f"the agent did not say that it is ready within {within_s:g} s"
            raise TimedOut(f"{node.name}: start: {why}{last_words(connection, node)}")
    raise Interrupted(f"{node.name}: start: broken off")


def _understood(node: NodeRecord, raw: bytes) -> AgentAnswer:
    try:
        answer = AgentAnswer.model_validate_json(raw)
    except ValidationError as error:
        raise TianjiError(f"{node.name}: start: the agent answered {raw[:200]!r}") from error
    if answer.error is not None or not answer.ready:
        raise TianjiError(f"{node.name}: start: {answer.error or 'the agent is not ready'}", hint=answer.hint)
    return answer


def keys_of(connection: Connection, head: NodeRecord) -> dict[str, bytes]:
    """The keys that agents of other nodes need, read off the head; never the coordinator's secret."""
    done = connection.run(_READ_KEYS, f"{head.folder}/keys", *KEYS)
    if done.status != 0:
        raise TianjiError(f"{head.name}: start: the run's keys cannot be read: {done.complaint}")
    words = [line.split() for line in done.text.splitlines()]
    return {f"keys/{name}": base64.b64decode(content) for name, content in words}


def last_words(connection: Connection, node: NodeRecord) -> str:
    """The end of what agent and coordinator wrote, indented, below a line break; empty where there is nothing."""
    try:
        lines = connection.run(_LAST_WORDS, node.folder, timeout_s=10.0).text.splitlines()
    except TianjiError:
        return ""  # the connection's own failure is told by whoever asked first
    return ":\n" + "\n".join(f"  {line}" for line in lines[-15:]) if lines else ""
