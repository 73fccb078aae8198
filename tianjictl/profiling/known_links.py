"""What the network of each host carries, as measured: from a saved profile, else link by link from the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.profiling import store
from tianjictl.profiling.links import host_mb_per_s, link_key, pairs_that_talk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from runtime.contract.measurement import LinkRate
    from tianjictl.profiling.remote_facts import NodeFacts


def known_mb_per_s(
    nodes: Sequence[NodeFacts], networks: Mapping[str, str | None], path: Path | None = None
) -> dict[str, float]:
    """MB/s by host, the head first among the nodes; hosts of which no link was measured are left out."""
    links = store.load(path).links if path is not None else tuple(_cached(nodes, networks))
    found = {node.host.name: host_mb_per_s(links, node.host.name) for node in nodes}
    return {name: speed for name, speed in found.items() if speed is not None}


def _cached(nodes: Sequence[NodeFacts], networks: Mapping[str, str | None]) -> Iterator[LinkRate]:
    """Of pairs that were measured since both hosts booted, with the networks by which they meet now."""
    by_name = {node.host.name: node for node in nodes}
    for one, other in pairs_that_talk(nodes, nodes[0].host.name):
        yield from store.cached_links(link_key(by_name[one], by_name[other], networks)) or ()
