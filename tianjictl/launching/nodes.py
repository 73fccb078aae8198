"""From hosts to nodes: all checked, staged, filled and started, the head first; or all taken down again."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.contract.order import AgentAnswer, AgentOrder
from runtime.contract.paths import node_folder
from runtime.contract.record import NodeRecord
from tianjictl.errors import Interrupted, TianjiError
from tianjictl.launching import node_start
from tianjictl.launching.fleet import Fleet, of_all
from tianjictl.launching.host_check import HostCheck, check_host
from tianjictl.launching.staging import runtime_archive, stage, staged_at
from tianjictl.runs.nodes import host_of, settings_of
from tianjictl.runs.sweeping import sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from runtime.contract.plan import Plan
    from tianjictl.hosts.types import Host
    from tianjictl.remote.base import Connection
    from tianjictl.runs.registry import Run

_LEAVE_S = 3.0  #: for what is told to end while a run is being started: nothing has been trained yet
_KILL_S = 10.0


def check_all(
    fleet: Fleet, names: Iterable[str], modules: Sequence[str], progress: Callable[[str], None]
) -> tuple[dict[str, HostCheck], dict[str, TianjiError]]:
    """Look at hosts that are reached; what was found, and which cannot take part."""
    digest = runtime_archive().digest
    return fleet.each(
        lambda connection: check_host(connection, fleet.hosts[connection.host], digest=digest, modules=modules),
        names,
        done=lambda name, found: progress(f"{name}: checked: {found.told}"),
        failed=lambda _name, error: progress(error.message),
    )


def record_of(host: Host, check: HostCheck, run: Run, *, head: bool) -> NodeRecord:
    """Where a run lies on a host. A head that is this machine uses the operator's own folder of the run."""
    here = host.connection == "local"
    folder = str(run.paths.root) if head and here else node_folder(check.state, host.name, run.run_id)
    staged = not (here and host.python is None)
    return NodeRecord(
        name=host.name,
        folder=folder,
        state=check.state,
        python=check.python,
        pythonpath=staged_at(check.state, runtime_archive()) if staged else None,
        host=settings_of(host),
        machine=check.machine,
    )


def stage_all(
    fleet: Fleet, nodes: Sequence[NodeRecord], checks: dict[str, HostCheck], progress: Callable[[str], None]
) -> None:
    """Bring the runtime to the nodes that want it and do not have it; `checks` say afterwards that they have."""
    archive = runtime_archive()
    wanting = {node.name: node for node in nodes if node.pythonpath is not None and not checks[node.name].staged}

    def staged(name: str, _path: str) -> None:
        checks[name] = checks[name].model_copy(update={"staged": True})
        progress(f"{name}: runtime staged, {len(archive.content) / 2**10:.0f} KiB")

    _, failures = fleet.each(
        lambda connection: stage(connection, wanting[connection.host].state, archive),
        wanting,
        done=staged,
        failed=lambda _name, error: progress(error.message),
    )
    if failures:
        raise of_all(failures)


@dataclass(frozen=True, slots=True)
class Start:
    """Everything that the agents of one attempt are told alike."""

    run_id: str
    attempt: int
    version: str
    networks: Mapping[str, str | None]  #: by node
    resume_from: Mapping[str, str]  #: checkpoint folders on the nodes that begin with one

    @classmethod
    def of(cls, run: Run, plan: Plan, version: str, resume_from: Mapping[str, str] | None = None) -> Start:
        networks = {host.name: host.network for host in plan.hosts}
        return cls(run.run_id, run.attempt, version, networks, resume_from or {})


def start_head(
    fleet: Fleet, head: NodeRecord, start: Start, files: Mapping[str, bytes], progress: Callable[[str], None]
) -> str | None:
    """Start the head's agent with its coordinator; the endpoint at which that listens for other nodes, if it does."""
    order = AgentOrder(
        run=head.folder,
        node=head.name,
        attempt=start.attempt,
        resume_from=start.resume_from.get(head.name),
        network=start.networks.get(head.name),
    )
    given_up = fleet.given_up
    answers, failures = fleet.each(
        lambda connection: _start(connection, head, start, order, files, given_up, fresh=False),
        [head.name],
        done=lambda name, answer: progress(f"{name}: agent and coordinator are up, {answer.endpoint or 'no listener'}"),
    )
    if failures:
        raise failures[head.name]
    return answers[head.name].endpoint


def start_others(
    fleet: Fleet,
    head: NodeRecord,
    others: Sequence[NodeRecord],
    start: Start,
    endpoint: str | None,
    progress: Callable[[str], None],
) -> None:
    """Start the agents of the other nodes, all at once, with the keys that the head has made."""
    if not others:
        return
    if endpoint is None:
        why = "its coordinator listens for no other node"
        raise TianjiError(f"{head.name}: start: {why}", hint="set tianji_network for all hosts")
    keys = node_start.keys_of(fleet.connections[head.name], head)
    nodes = {node.name: node for node in others}
    given_up = fleet.given_up

    def begin(connection: Connection) -> AgentAnswer:
        node = nodes[connection.host]
        order = AgentOrder(
            run=node.folder,
            node=node.name,
            head=False,
            attempt=start.attempt,
            resume_from=start.resume_from.get(node.name),
            coordinator=endpoint,
            network=start.networks.get(node.name),
        )
        return _start(connection, node, start, order, keys, given_up, fresh=True)

    _, failures = fleet.each(
        begin,
        nodes,
        done=lambda name, _answer: progress(f"{name}: agent is up"),
        failed=lambda _name, error: progress(error.message.partition("\n")[0]),
    )
    if failures:
        raise of_all(failures)


def _start(
    connection: Connection,
    node: NodeRecord,
    start: Start,
    order: AgentOrder,
    files: Mapping[str, bytes],
    given_up: threading.Event,
    *,
    fresh: bool,
) -> AgentAnswer:
    node_start.fill(connection, node, {**files, **node_start.order_file(order)}, fresh=fresh)
    if given_up.is_set():
        raise Interrupted(f"{node.name}: start: broken off")
    process = node_start.start(connection, node, start.run_id, start.version)
    return node_start.answer_of(connection, node, process, given_up)


def take_down(
    fleet: Fleet, run_id: str, nodes: Sequence[NodeRecord], progress: Callable[[str], None], *, whole: bool = True
) -> list[str]:
    """End whatever of the run is on these nodes; what is left, or may be, one line for each node that has something.

    Waits first for what is still under way there. A node that does not answer any more is reached anew, once. Without
    `whole` other nodes of the run on the same machine are left alone.
    """
    fleet.break_off()
    fleet.reach([node.name for node in nodes], progress=lambda _line: None)

    def end(connection: Connection) -> list[str]:
        only = None if whole else connection.host
        if sweep(connection, run_id, "ask", _LEAVE_S, node=only):
            left = sweep(connection, run_id, "kill", _KILL_S, node=only)
            return [f"{process.pid} ({process.command})" for process in left]
        return []

    folders = {node.name: node.folder for node in nodes}
    came, failures = fleet.each(end, [name for name in folders if name in fleet.connections])
    lines = []
    for node in nodes:
        if node.name in came:
            if came[node.name]:
                lines.append(f"{node.name}: still running: {', '.join(came[node.name])}")
            else:
                progress(f"{node.name}: nothing of the run is left running")
        else:
            why = failures[node.name].message if node.name in failures else "it cannot be reached"
            lines.append(f"{node.name}: processes of {run_id} may be left there, nobody could look: {why}")
    return lines


# $1 the run's folder on the node, $2 the node's folder for all runs, $3 the host
_FORGET = """rm -f -- "$2"/stage/.*.tar.gz-"$3"
[ -d "$1" ] || exit 0
rm -rf -- "$1/keys" "$1/order.json" "$1/answer.json"
[ -n "$(ls -A "$1/logs" 2>/dev/null)" ] || rm -rf -- "$1"
[ ! -d "$1" ] || echo kept
"""


def forget(fleet: Fleet, run: Run, nodes: Sequence[NodeRecord]) -> list[str]:
    """Take away keys, and folders in which nothing was logged, from nodes where a start has failed; what is kept."""
    elsewhere = {node.name: node for node in nodes if node.folder != str(run.paths.root)}
    came, _ = fleet.each(
        lambda connection: _forget(connection, elsewhere[connection.host]),
        [name for name in elsewhere if name in fleet.connections],
    )
    return [f"{name}: its logs are kept in {elsewhere[name].folder}" for name, said in came.items() if said == "kept"]


def _forget(connection: Connection, node: NodeRecord) -> str:
    return connection.run(_FORGET, node.folder, node.state, node.name).text


def fleet_of(nodes: Iterable[NodeRecord]) -> Fleet:
    """The hosts of a run's record, not reached yet."""
    return Fleet({node.name: host_of(node) for node in nodes})
