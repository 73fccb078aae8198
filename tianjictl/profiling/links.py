"""Which pairs of hosts will talk, in which rounds their links are measured, and what that says of a host. Pure."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from runtime.contract.measurement import LinkRate
from runtime.contract.states import Role
from tianjictl.profiling.profile import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runtime.contract.measurement import LinkReport
    from tianjictl.profiling.facts.network import Address
    from tianjictl.profiling.remote_facts import NodeFacts

Pair = tuple[str, str]
_ALL_PAIRS = 8  #: hosts; with more of them, those with the head and a ring have to do
_EPHEMERAL = (20000, 59999)


def pairs_that_talk(nodes: Sequence[NodeFacts], head: str) -> tuple[Pair, ...]:
    """Every two hosts between which a run may send: the head and each, and hosts of learners with those of actors."""
    names = [node.host.name for node in nodes]
    position = {name: number for number, name in enumerate(names)}
    wanted = {(head, name) for name in names if name != head}
    if len(names) <= _ALL_PAIRS:
        for one in nodes:
            for other in nodes:
                if one is not other and _may(one, Role.LEARNER) and _may(other, Role.ACTOR):
                    wanted.add((one.host.name, other.host.name))
    else:
        wanted |= {(names[number - 1], names[number]) for number in range(len(names))}
    numbers = {(min(ends), max(ends)) for ends in ((position[a], position[b]) for a, b in wanted)}
    return tuple((names[first], names[second]) for first, second in sorted(numbers))


def _may(node: NodeFacts, role: Role) -> bool:
    return not node.host.roles or role in node.host.roles


def rounds_of(pairs: Iterable[Pair]) -> tuple[tuple[Pair, ...], ...]:
    """The pairs in rounds, in each of which no host is in two of them."""
    rounds: list[list[Pair]] = []
    for pair in pairs:
        for taken in rounds:
            if not any(set(pair) & set(other) for other in taken):
                taken.append(pair)
                break
        else:
            rounds.append([pair])
    return tuple(tuple(taken) for taken in rounds)


def address_in(node: NodeFacts, network: str | None) -> Address | None:
    """The address by which the others reach a node in its network."""
    inside = (a for a in node.network.addresses if network is not None and a.inside(network))
    return next(inside, None)


def ports_to_try(node: NodeFacts, count: int, rng: random.Random) -> tuple[int, ...]:
    """Some ports on which a node may listen, in no order that others would choose, too."""
    first, last = node.host.ports or _EPHEMERAL
    return tuple(rng.sample(range(first, last + 1), min(count, last - first + 1)))


def link_key(one: NodeFacts, other: NodeFacts, networks: Mapping[str, str | None]) -> str:
    """Fingerprint of a link: both hosts, since their boot, and the networks by which they meet."""
    ends = sorted((node.identity, node.host.name, networks[node.host.name]) for node in (one, other))
    return digest_of([[*map(str, end)] for end in ends])


def both_directions(pair: Pair, listened: LinkReport, connected: LinkReport) -> tuple[LinkRate, LinkRate]:
    """What the two ends have seen, of `pair`: (who listened, who connected)."""
    assert connected.rtt_s is not None
    server, client = pair
    return (
        LinkRate(source=client, target=server, mb_per_s=listened.received_mb_per_s, rtt_s=connected.rtt_s),
        LinkRate(source=server, target=client, mb_per_s=connected.received_mb_per_s, rtt_s=connected.rtt_s),
    )


def host_mb_per_s(links: Iterable[LinkRate], host: str) -> float | None:
    """What a host's network carries in the slower direction, by the best pair that it is in; none: not measured."""
    ways: dict[str, dict[str, float]] = {}
    for link in links:
        if host in (link.source, link.target):
            other = link.target if link.source == host else link.source
            ways.setdefault(other, {})["out" if link.source == host else "in"] = link.mb_per_s.median
    return max((min(way.values()) for way in ways.values()), default=None)
