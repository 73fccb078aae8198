"""Which links are measured, when, and what is made of what their ends have seen. Pure."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from runtime.contract.measurement import (
    ActorRate,
    LearnerRate,
    LinkRate,
    LinkReport,
    MeasureReport,
    Spread,
)
from tianjictl.hosts.types import Host
from tianjictl.profiling.facts.network import understand
from tianjictl.profiling.links import (
    both_directions,
    host_mb_per_s,
    link_key,
    pairs_that_talk,
    ports_to_try,
    rounds_of,
)
from tianjictl.profiling.local import local_facts
from tianjictl.profiling.remote_facts import NodeFacts
from tianjictl.profiling.speeds import host_rates

FACTS = local_facts()


def node(name: str, *roles: str, ports: tuple[int, int] | None = None) -> NodeFacts:
    network = understand(f"1: eth0    inet 10.0.0.{len(name)}/24 scope global\n", {})
    host = Host(name=name, address=name, roles=roles, ports=ports)
    return NodeFacts(host=host, facts=FACTS, identity=f"boot of {name}", network=network)


def known(value: float, high: float | None = None) -> Spread:
    return Spread(median=value, low=value, high=high or value, repeats=1)


def test_hosts_that_only_act_do_not_talk_to_each_other() -> None:
    nodes = [node("head"), node("l", "learner", "buffer"), node("a", "actor"), node("b", "actor")]
    assert set(pairs_that_talk(nodes, "head")) == {
        ("head", "l"), ("head", "a"), ("head", "b"), ("l", "a"), ("l", "b"),
    }  # fmt: skip


def test_of_many_hosts_those_with_the_head_and_a_ring_have_to_do() -> None:
    nodes = [node(f"n{number:02}") for number in range(20)]
    pairs = pairs_that_talk(nodes, "n00")
    assert len(pairs) == 19 + 18
    assert {pair for pair in pairs if "n00" in pair} == {("n00", f"n{number:02}") for number in range(1, 20)}


@pytest.mark.parametrize("count", [2, 5, 8])
def test_in_a_round_no_host_is_in_two_pairs_and_every_pair_has_a_round(count: int) -> None:
    pairs = list(combinations([f"n{number}" for number in range(count)], 2))
    rounds = rounds_of(pairs)
    assert sorted(pair for taken in rounds for pair in taken) == pairs
    for taken in rounds:
        hosts = [host for pair in taken for host in pair]
        assert len(hosts) == len(set(hosts))
    assert len(rounds) <= 2 * count


def test_ports_are_those_that_the_inventory_allows() -> None:
    assert set(ports_to_try(node("a", ports=(7000, 7001)), 3, random.Random(1))) == {7000, 7001}
    assert len(set(ports_to_try(node("a"), 3, random.Random(1)))) == 3


def test_the_key_of_a_link_changes_with_a_boot_and_with_the_network_and_not_with_the_order() -> None:
    a, b = node("a"), node("b")
    networks = {"a": "10.0.0.0/24", "b": "10.0.0.0/24"}
    assert link_key(a, b, networks) == link_key(b, a, networks)
    again = NodeFacts(host=a.host, facts=a.facts, identity="another boot", network=a.network)
    assert link_key(again, b, networks) != link_key(a, b, networks)
    assert link_key(a, b, networks | {"b": "10.1.0.0/24"}) != link_key(a, b, networks)


def test_what_an_end_received_is_the_rate_of_the_direction_towards_it() -> None:
    listened = LinkReport(received_mb_per_s=known(10))
    connected = LinkReport(received_mb_per_s=known(20), rtt_s=known(1e-3, 2e-3))
    rates = both_directions(("server", "client"), listened, connected)
    assert {(rate.source, rate.target): rate.mb_per_s.median for rate in rates} == {
        ("client", "server"): 10, ("server", "client"): 20,
    }  # fmt: skip
    assert all(rate.rtt_s.high == 2e-3 for rate in rates)


def test_a_host_carries_what_its_best_pair_carries_in_the_slower_direction() -> None:
    def rate(source: str, target: str, mb: float) -> LinkRate:
        return LinkRate(source=source, target=target, mb_per_s=known(mb), rtt_s=known(1e-4))

    links = [rate("a", "b", 100), rate("b", "a", 90), rate("a", "c", 10), rate("c", "a", 12)]
    assert [host_mb_per_s(links, name) for name in "abcd"] == [90, 90, 10, None]


def test_rates_of_a_host_are_those_of_an_actor_among_others_and_costs_are_core_time() -> None:
    report = MeasureReport(
        actors=(
            ActorRate(num_envs=8, busy_neighbours=0, steps_per_s=known(1000), cpu_s_per_step=known(1e-4)),
            ActorRate(num_envs=8, busy_neighbours=3, steps_per_s=known(800), cpu_s_per_step=known(2e-4)),
            ActorRate(num_envs=16, busy_neighbours=3, steps_per_s=known(1500), cpu_s_per_step=known(3e-4)),
        ),
        learners=(
            LearnerRate(cores=1, samples_per_s=known(500), cpu_s_per_sample=known(1e-3)),
            LearnerRate(cores=2, samples_per_s=known(800)),
        ),
        fragment_samples=100,
        buffer_s_per_fragment=known(1e-3),
        buffer_cpu_s_per_fragment=known(2e-3),
        courier_cpu_s_per_fragment=known(4e-3),
        memcpy_mb_per_s=known(1),
        checkpoint_mb_per_s=known(1),
    )
    rates = host_rates(report)
    assert (rates.actor_steps_per_s, rates.actor_cpu_s_per_step) == (800, 2e-4)
    assert rates.learner[0].cpu_s_per_sample == 1e-3
    assert rates.learner[1].cpu_s_per_sample == pytest.approx(2 / 800), "not measured: all of its cores, all the time"
    assert rates.receive_s_per_step == pytest.approx(1e-5)
    assert rates.buffer_cpu_s_per_step == pytest.approx(2e-5)
    assert rates.courier_cpu_s_per_step == pytest.approx(4e-5)
