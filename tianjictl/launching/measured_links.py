"""Links between hosts, measured: a program at either end, pair by pair, in rounds in which no host is in two pairs."""

from __future__ import annotations

import json
import random
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.measurement import LinkRate, LinkReport
from tianjictl.errors import TianjiError
from tianjictl.profiling import store
from tianjictl.profiling.links import (
    address_in,
    both_directions,
    link_key,
    pairs_that_talk,
    ports_to_try,
    rounds_of,
)
from tianjictl.profiling.probing import last_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tianjictl.profiling.links import Pair
    from tianjictl.profiling.remote_facts import NodeFacts
    from tianjictl.remote.base import Completed, Connection

_PORTS = 3  #: tried one after the other
_WITHIN_S = 40.0
_PORT_TAKEN = 3
# $1 interpreter, $2 PYTHONPATH, $3 listen or connect, $4 address, $5 port, $6 file with the secret: a secret among the
# arguments could be seen by everybody on the host.
_MEASURE = """export PYTHONPATH="$2"
exec "$1" -m runtime measure-link "$3" "$4" "$5" <"$6"
"""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where the runtime lies on a host, and a folder there that is only ours."""

    python: str
    path: str
    state: str


@dataclass(frozen=True, slots=True)
class End:
    """One end of a link."""

    node: NodeFacts
    connection: Connection
    ground: Ground
    address: str


def measure_links(
    nodes: Sequence[NodeFacts],
    head: str,
    networks: Mapping[str, str | None],
    connections: Mapping[str, Connection],
    grounds: Mapping[str, Ground],
    *,
    refresh: bool = False,
    progress: Callable[[str], None] = lambda _line: None,
) -> tuple[tuple[LinkRate, ...], tuple[TianjiError, ...]]:
    """Both directions of every pair that will talk, and what stood in the way of others.

    A pair whose link was measured since both hosts booted is known, unless `refresh`.
    """
    by_name = {node.host.name: node for node in nodes if node.host.name in grounds}
    present = [node for node in nodes if node.host.name in by_name]
    known: dict[Pair, tuple[LinkRate, ...]] = {}
    wanted = []
    for pair in pairs_that_talk(present, head) if head in by_name else ():
        found = None if refresh else store.cached_links(link_key(by_name[pair[0]], by_name[pair[1]], networks))
        if found is None:
            wanted.append(pair)
        else:
            known[pair] = found
    failures: list[TianjiError] = []
    for taken in rounds_of(wanted):
        progress(f"measuring the link{'s' if len(taken) > 1 else ''} {', '.join(' – '.join(pair) for pair in taken)}")
        for pair, outcome in _round(taken, by_name, networks, connections, grounds):
            if isinstance(outcome, TianjiError):
                failures.append(outcome)
            else:
                known[pair] = outcome
                store.keep_links(link_key(by_name[pair[0]], by_name[pair[1]], networks), outcome)
    return tuple(link for pair in sorted(known) for link in known[pair]), tuple(failures)


def _round(
    pairs: Sequence[Pair],
    nodes: Mapping[str, NodeFacts],
    networks: Mapping[str, str | None],
    connections: Mapping[str, Connection],
    grounds: Mapping[str, Ground],
) -> list[tuple[Pair, tuple[LinkRate, ...] | TianjiError]]:
    """All pairs at once; a connection is for one thread at a time, and no host is in two pairs."""

    def one(pair: Pair) -> tuple[LinkRate, ...] | TianjiError:
        try:
            ends = [_end(nodes[name], networks[name], connections[name], grounds[name]) for name in pair]
            return measure_link(ends[0], ends[1])
        except TianjiError as error:
            return TianjiError(f"the link {pair[0]} – {pair[1]} was not measured: {error.message}", hint=error.hint)

    with ThreadPoolExecutor(max_workers=len(pairs)) as pool:
        return list(zip(pairs, pool.map(one, pairs), strict=True))


def _end(node: NodeFacts, network: str | None, connection: Connection, ground: Ground) -> End:
    address = address_in(node, network)
    if address is None:
        raise TianjiError(f"{node.host.name} has no address in {network}")
    return End(node, connection, ground, address.address)


def measure_link(server: End, client: End) -> tuple[LinkRate, LinkRate]:
    """The first listens, the second connects. TianjiError where they do not meet."""
    rng = random.SystemRandom()
    why = "no port was tried"
    for port in ports_to_try(server.node, _PORTS, rng):
        key = secrets.token_hex(32)
        with ThreadPoolExecutor(max_workers=2) as pool:
            listening = pool.submit(_run, server, "listen", server.address, port, key)
            connecting = pool.submit(_run, client, "connect", server.address, port, key)
            ends = listening.result(), connecting.result()
        if all(end.status == 0 for end in ends):
            listened, connected = (LinkReport.model_validate_json(last_line(end.text)) for end in ends)
            return both_directions((server.node.host.name, client.node.host.name), listened, connected)
        why = "; ".join(_why(end) for end in ends if end.status != 0)
        if ends[0].status != _PORT_TAKEN:
            break
    raise TianjiError(
        why, hint=f"is there a firewall between them? tianji_ports of {server.node.host.name}: FIRST-LAST"
    )


def _run(end: End, side: str, address: str, port: int, key: str) -> Completed:
    secret = f"{end.ground.state}/.link-{secrets.token_hex(8)}"
    end.connection.put(key.encode() + b"\n", secret, mode=0o600)
    try:
        ground = end.ground
        return end.connection.run(
            _MEASURE, ground.python, ground.path, side, address, str(port), secret, timeout_s=_WITHIN_S
        )
    finally:
        end.connection.run('rm -f -- "$1"', secret)


def _why(end: Completed) -> str:
    try:
        return str(json.loads(last_line(end.text))["error"])
    except (ValueError, KeyError, TypeError, ValidationError):
        return end.complaint
