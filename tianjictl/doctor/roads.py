"""Tries the ways between the head and every other host, as a run will use them: both ways, in the allowed ports.

Each host listens once, on its address in the run's network, for those who have a key that is made for this visit.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from runtime.contract.model import Document
from runtime.contract.reach import Connect, Connected, Listen, Listening, Target, Way
from tianjictl.doctor.checks.software import MPI_MODULE
from tianjictl.doctor.looking import able, pythonpath
from tianjictl.doctor.situation import Road
from tianjictl.errors import TianjiError
from tianjictl.launching.host_check import env_modules
from tianjictl.profiling.probing import last_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tianjictl.doctor.situation import Examined, Situation
    from tianjictl.launching.fleet import Fleet
    from tianjictl.remote.base import Connection

T = TypeVar("T", bound=Document)
_WITHIN_S = 2.0  #: for one TCP connection
_MEET_S = 5.0  #: for two MPI worlds, the first time that their libraries are loaded
_STAY_S = 20.0  #: that a listener waits for those who are to come; it leaves as soon as they were there
_EXCHANGE_S = 60.0
# $1 interpreter, $2 PYTHONPATH or "", $3 the request's file
_REACH = """[ -z "$2" ] || export PYTHONPATH="$2"
exec "$1" -m runtime reach "$3"
"""


@dataclass(frozen=True, slots=True)
class _Party:
    """One host that takes part."""

    one: Examined
    way: Way


def try_roads(fleet: Fleet, situation: Situation, *, mpi: bool = False) -> tuple[Road, ...]:
    """Every way between the first able host and each other one; by MPI only towards the others. None for one host."""
    parties = {party.one.name: party for party in _parties(situation, mpi=mpi)}
    if len(parties) < 2:
        return ()
    head, *others = parties
    key = secrets.token_hex(32)
    listeners = others if mpi else [head, *others]

    def listen(connection: Connection) -> Listening:
        party = parties[connection.host]
        expected = len(others) if party.one.name == head else 1
        wish = Listen(key=key, expected=expected, within_s=_STAY_S, **party.way.model_dump())
        return Listening.model_validate_json(_asked(connection, party.one, wish))

    heard, deaf = fleet.each(_told(listen), listeners)
    ways = {head: others} if mpi else {head: others, **{name: [head] for name in others}}

    def connect(connection: Connection) -> Connected:
        party = parties[connection.host]
        targets = tuple(Target(name=to, address=heard[to].address) for to in ways[connection.host] if _open(heard, to))
        wish = Connect(key=key, targets=targets, within_s=_MEET_S if mpi else _WITHIN_S, **party.way.model_dump())
        return Connected.model_validate_json(_asked(connection, party.one, wish))

    came, lost = fleet.each(_told(connect), ways)
    wanted = [(source, target) for source, targets in ways.items() for target in targets]
    return tuple(_road(source, target, heard, deaf, came, lost) for source, target in wanted)


def _parties(situation: Situation, *, mpi: bool) -> list[_Party]:
    """Hosts that can listen and connect, the head first."""
    modules = env_modules(situation.env_id) if situation.env_id else ()
    found = []
    for one in situation.there:
        network = situation.networks.get(one.name, one.host.network)
        if one.software is None or not able(one.software, modules) or network is None:
            continue
        if mpi and MPI_MODULE in one.software.missing:
            continue
        found.append(_Party(one, Way(network=network, ports=one.host.ports, mpi=mpi, mpi_abi=one.host.mpi_abi)))
    return found


def _asked(connection: Connection, one: Examined, wish: Listen | Connect) -> str:
    """What a host answers. The request goes by a file, as everybody on the host can read a command line."""
    assert one.software is not None
    path = f"{one.software.state}/.reach-{one.name}-{secrets.token_hex(8)}.json"
    connection.put(wish.model_dump_json().encode(), path)
    words = (one.software.python, pythonpath(one.host, one.software), path)
    done = connection.run(_REACH, *words, timeout_s=_EXCHANGE_S)
    if done.status != 0:
        raise TianjiError(last_line(done.text) or done.complaint)
    return last_line(done.text)


def _told(ask: Callable[[Connection], T]) -> Callable[[Connection], T]:
    """An answer that is none is the host's failure, not this program's."""

    def asked(connection: Connection) -> T:
        try:
            return ask(connection)
        except ValidationError as error:
            raise TianjiError(f"{connection.host}: no answer that can be understood") from error

    return asked


def _open(heard: Mapping[str, Listening], name: str) -> bool:
    return name in heard and bool(heard[name].address)


def _road(
    source: str,
    target: str,
    heard: Mapping[str, Listening],
    deaf: Mapping[str, TianjiError],
    came: Mapping[str, Connected],
    lost: Mapping[str, TianjiError],
) -> Road:
    """What became of one way."""
    if not _open(heard, target):
        why = heard[target].error if target in heard else deaf[target].message
        return Road(source, target, "", problem=f"nothing can listen: {why}")
    address = heard[target].address
    if source not in came:
        return Road(source, target, address, problem=lost[source].message)
    reached = next(one for one in came[source].reached if one.name == target)
    return Road(source, target, reached.transport or address, reached.took_s, reached.problem)
