"""How fast a courier link moves 512 KB fragments between two hosts, beside iperf3 on the same path.

Two pretend hosts on one machine, with a network namespace each; in each runs a real courier. A producer commits
fragments into a ring of the one, a consumer releases them from the mirrored ring of the other; neither touches the
payload, so what is measured is the link. Rounds alternate with a single iperf3 stream between the same two, and the
ratio is taken over pairs of neighbouring rounds. Takes precedence over whatever else the machine does meanwhile. Needs
root, sshd, iproute2 and iperf3.

    python benchmarks/courier_throughput.py [--rounds 9] [--seconds 2] [--slots 16] [--json]

Exit status 1 if the link is below 90 % of iperf3, 77 if it cannot be measured here.
"""

from __future__ import annotations

import argparse
import json
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from runtime.memory.layout import Field, Layout
from runtime.memory.ring import RingSpec
from support.couriers import NodeRing, RunningCourier, join, until
from support.pretend_hosts import PretendHosts, take_precedence, why_not

FRAGMENT_BYTES = 512 * 1024
BAR = 0.90
CANNOT = 77


def iperf_gb_s(hosts: PretendHosts, seconds: float) -> float:
    """One TCP stream from the first host to the second, received bytes per second in GB."""
    address = hosts.address(1)
    server = subprocess.Popen(
        [*hosts.enter(1, network_only=True), "iperf3", "-s", "-1", "-B", address], stdout=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            done = subprocess.run(
                [*hosts.enter(0, network_only=True), "iperf3", "-c", address, "-t", str(int(seconds)), "-J"],
                capture_output=True,
                text=True,
                check=False,
            )
            received = json.loads(done.stdout).get("end", {}).get("sum_received")
            if received is not None:  # else the server does not listen yet
                return float(received["bits_per_second"]) / 8e9
            time.sleep(0.05)
        raise RuntimeError(f"iperf3: {done.stdout}")
    finally:
        server.kill()
        server.wait()


class CourierLink:
    """Two couriers, one on each host, and a ring mirrored from the first to the second."""

    def __init__(self, hosts: PretendHosts, slots: int) -> None:
        layout = Layout((Field("fragment", "uint8", (FRAGMENT_BYTES,)),))
        self.couriers = [
            RunningCourier(hosts.folder, name, prefix=hosts.enter(number, network_only=True), interface="eth0")
            for number, name in enumerate(hosts.names)
        ]
        self.near, self.far = NodeRing(RingSpec("near", layout, slots)), NodeRing(RingSpec("far", layout, slots + 1))
        sending, receiving = self.couriers
        self.near.mirror(sending, receiving.name, 1, "send")
        self.far.mirror(receiving, sending.name, 1, "receive")
        join(receiving, sending)
        self._producer, self._consumer = self.near.producer(), self.far.consumer()

    def gb_s(self, seconds: float) -> float:
        """Released bytes per second in GB."""
        awaited = (self.near.events[1], self.far.events[0])  # room here, fragments there
        moved, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            while self._producer.acquire() is not None:
                self._producer.commit(1)
            readable, _, _ = select.select(awaited, [], [], 0.05)
            for event in readable:
                event.drain()
            while (slot := self._consumer.peek()) is not None:
                self._consumer.release(consumed=slot.samples)
                moved += 1
        return moved * FRAGMENT_BYTES / (time.perf_counter() - began) / 1e9

    def end(self) -> None:
        """See both couriers out; nothing may be lost before."""
        until(lambda: self.near.ledger().in_flight == self.far.ledger().in_flight, "both ledgers agree")
        for courier in self.couriers:
            courier.end()


def measure(rounds: int, seconds: float, slots: int) -> dict[str, float]:
    """Medians over alternating rounds, and that of the ratios of neighbours."""
    link_rates, iperf_rates = [], []
    with tempfile.TemporaryDirectory() as folder:
        hosts = PretendHosts(Path(folder))
        try:
            hosts.up(2)
            link = CourierLink(hosts, slots)
            link.gb_s(0.5)
            for _ in range(rounds):
                link_rates.append(link.gb_s(seconds))
                iperf_rates.append(iperf_gb_s(hosts, seconds))
            link.end()
        finally:
            hosts.close()
    ratios = [link / iperf for link, iperf in zip(link_rates, iperf_rates, strict=True)]
    named = {"courier_gb_s": link_rates, "iperf3_gb_s": iperf_rates, "ratio": ratios}
    return {name: statistics.median(values) for name, values in named.items()}


def main() -> int:
    """Measure, print, and say by the exit status whether the bar holds."""
    parser = argparse.ArgumentParser(description="courier link throughput between two network namespaces")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    reason = why_not() or (None if shutil.which("iperf3") else "iperf3 is missing")
    if reason is not None:
        print(f"skipped: {reason}")
        return CANNOT
    take_precedence()
    result = measure(options.rounds, options.seconds, options.slots)
    print(
        json.dumps(result) if options.json else "\n".join(f"{name:14} {value:7.3f}" for name, value in result.items())
    )
    return 0 if result["ratio"] >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
