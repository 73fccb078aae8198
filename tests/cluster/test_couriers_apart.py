"""Couriers on hosts of their own: where they listen, what a slow link costs, a cut, and a stranger at the door."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from runtime.courier.codec import BoardCodec
from runtime.courier.orders import Join, OpenPort
from runtime.memory.board import BoardSpec
from runtime.memory.ring import RingSpec
from support.couriers import NodeBoard, NodeRing, RunningCourier, join, until
from support.pretend_hosts import PretendHosts
from support.real_traffic import Traffic, cartpole_traffic

FRAGMENTS = 30
LISTENS = "0A"  # the state of a socket in /proc/net/tcp
Start = Callable[..., RunningCourier]


@pytest.fixture
def courier(pretend_hosts: PretendHosts, tmp_path: Path) -> Iterator[Start]:
    """Starts couriers by the number of their host."""
    started: list[RunningCourier] = []

    def start(number: int, **options: object) -> RunningCourier:
        where = pretend_hosts.enter(number, network_only=True)
        name = f"{pretend_hosts.name(number)}-{len(started)}"
        started.append(RunningCourier(tmp_path, name, prefix=where, interface="eth0", **options))
        return started[-1]

    yield start
    for one in started:
        with suppress(OSError):  # ended by the test
            one.end()


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    return cartpole_traffic(tmp_path_factory.mktemp("run"), FRAGMENTS)


class Exchange:
    """Fragments from the first courier to the second, policies the other way, as between an actor and its learner."""

    def __init__(self, traffic: Traffic, actor: RunningCourier, learner: RunningCourier, *, wan: bool = False) -> None:
        self._traffic = traffic
        self.near, self.far = (
            NodeRing(RingSpec(end, traffic.fragment, 4 + at)) for at, end in enumerate(("near", "far"))
        )
        self.home, self.copy = (NodeBoard(BoardSpec(name, traffic.policy)) for name in ("home", "copy"))
        codec = BoardCodec.INT8 if wan else BoardCodec.PLAIN
        self.near.mirror(actor, learner.name, 1, "send", wan=wan)
        self.far.mirror(learner, actor.name, 1, "receive", wan=wan)
        self.home.mirror(learner, actor.name, 2, "send", codec)
        self.copy.mirror(actor, learner.name, 2, "receive", codec)
        join(learner, actor)
        self._producer, self._consumer = self.near.producer(), self.far.consumer()
        self._writer, self._reader = self.home.writer(), self.copy.reader()
        self.rounds = 0

    def go_round(self) -> None:
        """One fragment arrives, and then the policy that came of it does."""
        number, traffic = self.rounds % FRAGMENTS, self._traffic
        until(lambda: self._producer.acquire() is not None, "there is room")
        slot = self._producer.acquire()
        assert slot is not None
        sent = traffic.fragment.views(memoryview(traffic.fragments[number]))
        for name, values in sent.items():
            slot.fields[name][:] = values
        self._producer.commit(1)
        until(lambda: self._consumer.peek() is not None, "the fragment came")
        came = self._consumer.peek()
        assert came is not None
        for name, values in sent.items():
            np.testing.assert_allclose(came.fields[name], values, rtol=2.0**-15)
        self._consumer.release(consumed=1)
        policy = traffic.policies[number % len(traffic.policies)]
        fields = self._writer.begin()
        for name, values in policy.items():
            fields[name][:] = values
        self._writer.publish(self.rounds)
        until(lambda: self._reader.version == self.rounds, "the policy came")
        self.rounds += 1

    def close(self) -> None:
        for one in (self.near, self.far, self.home, self.copy):
            one.close()


def transmitted(hosts: PretendHosts) -> int:
    """Bytes that the first two hosts have sent, everything included."""
    counts = [hosts.space(number).inside("cat", "/proc/net/dev") for number in (0, 1)]
    return sum(int(line.split()[9]) for text in counts for line in text.splitlines() if "eth0:" in line)


def test_a_slow_link_carries_less_than_three_tenths_of_the_bytes(
    pretend_hosts: PretendHosts, courier: Start, traffic: Traffic
) -> None:
    pretend_hosts.netem(1, rate_mbit=100, delay_ms=50)
    spent = {}
    for wan in (False, True):
        exchange = Exchange(traffic, courier(0), courier(1), wan=wan)
        before = transmitted(pretend_hosts)
        for _ in range(FRAGMENTS):
            exchange.go_round()
        spent[wan] = transmitted(pretend_hosts) - before
        exchange.close()
    assert spent[False] > FRAGMENTS * (traffic.fragment.nbytes + traffic.policy.nbytes)
    assert spent[True] <= 0.30 * spent[False], f"{spent[True] / spent[False]:.3f}"


def test_nothing_is_lost_while_the_cable_is_out(pretend_hosts: PretendHosts, courier: Start, traffic: Traffic) -> None:
    a, b = courier(0), courier(1)
    exchange = Exchange(traffic, a, b)
    exchange.go_round()
    pretend_hosts.cut(1)
    producer = exchange._producer
    while producer.acquire() is not None:
        producer.commit(1)
    until(lambda: bool(a.hear() and b.hear()), "both ends noticed")
    pretend_hosts.mend(1)
    join(b, a)
    waiting = exchange.near.ledger().committed
    until(lambda: exchange.far.ledger().committed == waiting, "everything came after all")
    exchange.close()


def test_couriers_listen_on_the_clusters_network_only(
    pretend_hosts: PretendHosts, courier: Start, traffic: Traffic
) -> None:
    Exchange(traffic, courier(0), courier(1)).go_round()
    for number in (0, 1):
        tables = [pretend_hosts.space(number).inside("cat", f"/proc/net/{name}") for name in ("tcp", "tcp6")]
        lines = [line.split() for table in tables for line in table.splitlines()[1:]]
        places = [words[1].split(":") for words in lines if words[3] == LISTENS]
        assert len(places) > 1, "sshd and the courier"
        address = socket.inet_aton(pretend_hosts.address(number))[::-1].hex().upper()
        assert {place for place, _ in places} == {address}


def test_noise_at_the_port_does_no_harm(pretend_hosts: PretendHosts, courier: Start, traffic: Traffic) -> None:
    learner = courier(1)
    learner.order(OpenPort())
    table = pretend_hosts.space(1).inside("cat", "/proc/net/tcp")
    ports = [int(line.split()[1].split(":")[1], 16) for line in table.splitlines()[1:] if line.split()[3] == LISTENS]
    for port in ports:
        for noise in (b"", b"GET / HTTP/1.0\r\n\r\n", bytes(range(256)) * 400):
            with socket.create_connection((pretend_hosts.address(1), port), timeout=5) as sock, suppress(OSError):
                sock.sendall(noise)
    exchange = Exchange(traffic, courier(0), learner)
    for _ in range(5):
        exchange.go_round()
    exchange.close()


def test_a_stranger_at_the_port_is_refused_and_the_proper_peer_joins_after_it(courier: Start, traffic: Traffic) -> None:
    learner, stranger = courier(1), courier(0, key="cd" * 32)
    port = learner.order(OpenPort())
    learner.tell(Join(peer=stranger.name, timeout_s=5))
    stranger.tell(Join(peer=learner.name, port=port, timeout_s=5))
    learner.answer()
    stranger.answer()
    until(lambda: bool(learner.hear()), "the stranger was refused")
    assert learner.view().links[0].up is False
    stranger.end()
    exchange = Exchange(traffic, courier(0), learner)
    for _ in range(5):
        exchange.go_round()
    exchange.close()
