"""Addresses and routes as hosts tell them, and which network each host of a run takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tianjictl.errors import UsageProblem
from tianjictl.hosts.types import Host
from tianjictl.profiling.facts.network import NetworkFacts, understand
from tianjictl.profiling.local import local_facts
from tianjictl.profiling.networks import choose_networks
from tianjictl.profiling.nodes import look_at
from tianjictl.profiling.remote_facts import NodeFacts
from tianjictl.remote.local import LocalConnection

LISTING = r"""1: lo    inet 127.0.0.1/8 scope host lo\       valid_lft forever preferred_lft forever
1: lo    inet6 ::1/128 scope host \       valid_lft forever preferred_lft forever
2: eth0    inet 192.168.1.7/24 brd 192.168.1.255 scope global eth0\       valid_lft forever
2: eth0    inet6 fe80::1/64 scope link \       valid_lft forever preferred_lft forever
3: ib0@if4    inet 10.0.0.7/16 scope global ib0\       valid_lft forever preferred_lft forever
4: tun0    inet 10.9.0.2 peer 10.9.0.1/32 scope global tun0\       valid_lft forever preferred_lft forever
"""
ROUTES = """Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	0101A8C0	0003	0	0	100	00000000	0	0	0
eth0	0001A8C0	00000000	0001	0	0	100	00FFFFFF	0	0	0
ib0	0000000A	00000000	0001	0	0	50	0000FFFF	0	0	0
ib0	000010AC	0100000A	0003	0	0	50	0000F0FF	0	0	0
down0	0000000A	00000000	0000	0	0	1	0000FFFF	0	0	0
"""
TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     +-- 127.0.0.0/8 2 0 2
           |-- 127.0.0.1
              /32 host LOCAL
     +-- 192.168.1.0/24 2 0 2
        |-- 192.168.1.7
           /32 host LOCAL
        |-- 192.168.1.255
           /32 link BROADCAST
     |-- 10.0.0.7
        /32 host LOCAL
Local:
     |-- 10.0.0.7
        /32 host LOCAL
"""
SIX = "fd000000000000000000000000000002 04 40 00 82     eth0\nfe8000000000000000fc00fffe000001 04 40 20 80     eth0\n"


def facts(*addresses: str, gateway: str | None = None) -> NetworkFacts:
    """A host with these addresses (`10.0.0.1/24`) on eth0, eth1, …, and a default route through one of them."""
    listing = "".join(f"{n}: eth{n}    inet {written} scope global\n" for n, written in enumerate(addresses))
    routes = "" if gateway is None else f"Iface\n{gateway} 00000000 01010101 0003 0 0 0 00000000 0 0 0\n"
    return understand(f"9: lo    inet 127.0.0.1/8 scope host lo\n{listing}", {"/proc/net/route": routes})


def node(name: str, *addresses: str, gateway: str | None = None, **changes: Any) -> NodeFacts:
    first = addresses[0].partition("/")[0]
    host = Host(name, **{"address": first, **changes})
    return NodeFacts(host, local_facts(), name, facts(*addresses, gateway=gateway))


def literal(name: str) -> tuple[str, ...]:
    return (name,) if name[0].isdigit() else ()


def chosen(head: str, *nodes: NodeFacts) -> tuple[dict[str, str | None], tuple[str, ...]]:
    return choose_networks(nodes, head, literal)


def test_addresses_are_those_that_ip_lists_without_link_local_ones() -> None:
    known = understand(LISTING, {"/proc/net/route": ROUTES})
    assert [(own.interface, own.address, own.network) for own in known.addresses] == [
        ("lo", "127.0.0.1", "127.0.0.0/8"),
        ("lo", "::1", "::1/128"),
        ("eth0", "192.168.1.7", "192.168.1.0/24"),
        ("ib0", "10.0.0.7", "10.0.0.0/16"),
        ("tun0", "10.9.0.2", "10.9.0.2/32"),
    ]


@pytest.mark.parametrize(
    ("target", "interface"),
    [("10.0.3.4", "ib0"), ("172.16.5.5", "ib0"), ("8.8.8.8", "eth0"), ("192.168.1.9", "eth0"), ("10.9.0.2", "tun0")],
)
def test_the_longest_route_leads_to_an_address(target: str, interface: str) -> None:
    way = understand(LISTING, {"/proc/net/route": ROUTES}).towards(target)
    assert way is not None
    assert way.interface == interface
    assert understand(LISTING, {}).towards("8.8.8.8") is None


def test_without_the_ip_program_the_kernels_tables_say_the_same() -> None:
    files = {"/proc/net/route": ROUTES, "/proc/net/fib_trie": TRIE, "/proc/net/if_inet6": SIX}
    assert [(own.interface, own.address, own.network) for own in understand("", files).addresses] == [
        ("lo", "127.0.0.1", "127.0.0.0/8"),
        ("eth0", "192.168.1.7", "192.168.1.0/24"),
        ("ib0", "10.0.0.7", "10.0.0.0/16"),
        ("eth0", "fd00::2", "fd00::/64"),
    ]


def test_this_machines_tables_and_its_ip_program_agree() -> None:
    (seen,) = look_at([Host("n1", "n1", connection="local")], {"n1": LocalConnection("n1")})
    by_tables = understand(None, {path: Path(path).read_text() for path in ("/proc/net/route", "/proc/net/fib_trie")})
    four = {own.address for own in seen.network.addresses if "." in own.address}
    assert {own.address for own in by_tables.addresses} <= four
    assert "127.0.0.1" in four


def test_a_network_that_the_inventory_names_is_taken_where_the_host_has_an_address_in_it() -> None:
    nodes = [node(name, f"192.168.1.{n}/24", f"10.0.0.{n}/16", network="10.0.0.0/16") for n, name in enumerate("ab", 1)]
    assert chosen("a", *nodes) == ({"a": "10.0.0.0/16", "b": "10.0.0.0/16"}, ())


def test_a_host_without_an_address_in_its_network_is_named_with_those_it_has() -> None:
    wrong = node("b", "192.168.1.2/24", network="10.0.0.0/16")
    also = node("c", "192.168.1.3/24", network="10.1.0.0/16")
    with pytest.raises(UsageProblem) as caught:
        chosen("a", node("a", "10.0.0.1/16", network="10.0.0.0/16"), wrong, also)
    first, second = caught.value.findings()
    assert "b: it has no address in its tianji_network 10.0.0.0/16" in first.message
    assert "127.0.0.1 (lo), 192.168.1.2 (eth0)" in first.message
    assert second.message.startswith("c: ")
    with pytest.raises(UsageProblem, match="only: it has no address"):
        chosen("only", node("only", "192.168.1.2/24", network="10.0.0.0/16"))


def test_without_a_network_the_route_to_the_head_decides_and_it_is_said() -> None:
    head = node("a", "192.168.1.1/24", "10.0.0.1/16")
    nodes = [
        head,
        node("b", "10.0.0.2/16", "192.168.1.2/24"),
        node("c", "172.16.0.9/24", "10.5.0.9/16", gateway="eth0"),
    ]
    networks, notes = chosen("a", *nodes)
    assert networks == {"a": "192.168.1.0/24", "b": "192.168.1.0/24", "c": "172.16.0.0/24"}
    assert notes[1] == "b: no tianji_network; it takes 192.168.1.0/24 by eth1, 192.168.1.2"
    named = replace(head, host=replace(head.host, network="10.0.0.0/16"))
    assert chosen("a", named, *nodes[1:2])[0]["b"] == "10.0.0.0/16"


def test_a_head_on_this_machine_is_met_where_it_reaches_the_others() -> None:
    head = node("here", "192.168.1.1/24", "10.0.0.1/16", connection="local", address="here")
    networks, _ = chosen("here", head, node("b", "10.0.0.2/16", "172.16.0.2/24"))
    assert networks == {"here": "10.0.0.0/16", "b": "10.0.0.0/16"}


def test_where_no_route_leads_it_is_an_error_for_each_host() -> None:
    head = node("a", "192.168.1.1/24")
    with pytest.raises(UsageProblem) as caught:
        chosen("a", head, node("b", "10.0.0.2/16"), node("c", "192.168.1.3/24"))
    assert [finding.message for finding in caught.value.findings()] == [
        "b: no route leads to a at 192.168.1.1; it has 127.0.0.1 (lo), 10.0.0.2 (eth0)"
    ]
    assert "tianji_network of b" in str(caught.value.hint or caught.value.first_hint)


def test_a_head_of_several_addresses_whose_name_nobody_here_knows_must_say_its_network() -> None:
    head = node("a", "192.168.1.1/24", "10.0.0.1/16", address="head.inside")
    with pytest.raises(UsageProblem, match="a: no route leads to a; "):
        chosen("a", head, node("b", "10.0.0.2/16", address="b.inside"))
    only = node("a", "10.0.0.1/16", address="head.inside")
    assert chosen("a", only, node("b", "10.0.0.2/16", address="b.inside"))[0] == {
        "a": "10.0.0.0/16", "b": "10.0.0.0/16",
    }  # fmt: skip


def test_nodes_of_this_machine_meet_on_its_loopback_and_one_node_needs_no_network() -> None:
    nodes = [node(name, "192.168.1.1/24", connection="local") for name in ("n1", "n2")]
    networks, notes = chosen("n1", *nodes)
    assert networks == {"n1": "127.0.0.0/8", "n2": "127.0.0.0/8"}
    assert notes == ("n1, n2: no tianji_network; all on this machine, so 127.0.0.0/8",)
    assert chosen("n1", nodes[0]) == ({"n1": None}, ())
