"""How fast a courier link moves 512 KB fragments between two hosts, beside iperf3 on the same path.

Two network namespaces joined by a veth pair stand for two hosts. In each runs a real courier under `mpiexec -n 1`. A
producer commits fragments into a ring of the one, a consumer releases them from the mirrored ring of the other; neither
touches the payload, so what is measured is the link. Rounds alternate with a single iperf3 stream between the same two
namespaces, and medians are compared. Needs root, `ip` and `iperf3`; makes and removes its own namespaces.

    python benchmarks/courier_throughput.py [--rounds 3] [--seconds 3] [--slots 16] [--json]

Exit status 1 if the link is below 90 % of iperf3, 77 if it cannot be measured here.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from runtime.courier.environment import find_mpiexec
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import RingSpec
from support.couriers import NodeRing, RunningCourier, join, until

FRAGMENT_BYTES = 512 * 1024
BAR = 0.90
CANNOT = 77
HOSTS = (("tjbench1", "10.78.0.1"), ("tjbench2", "10.78.0.2"))


def ip(*words: str) -> None:
    """Run `ip`; CalledProcessError if it fails."""
    subprocess.run(["ip", *words], check=True)


def ready(name: str) -> bool:
    """Whether the namespace's interface is up and has no address that cannot be bound yet."""
    shown = subprocess.run(["ip", "-n", name, "addr", "show", "eth0"], capture_output=True, text=True, check=True)
    return "state UP" in shown.stdout and "tentative" not in shown.stdout


@contextmanager
def two_hosts() -> Iterator[None]:
    """Two namespaces and a veth pair between them."""
    names = [name for name, _ in HOSTS]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns", names[1])
        for name, address in HOSTS:
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        until(lambda: all(ready(name) for name in names), "the interfaces carry")
        yield
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def iperf_gb_s(seconds: float) -> float:
    """One TCP stream, received bytes per second in GB."""
    (here, _), (there, address) = HOSTS
    server = subprocess.Popen(
        ["ip", "netns", "exec", there, "iperf3", "-s", "-1", "-B", address], stdout=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            done = subprocess.run(
                ["ip", "netns", "exec", here, "iperf3", "-c", address, "-t", str(int(seconds)), "-J"],
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
    """Two couriers, one in each namespace, and a ring mirrored from the first to the second."""

    def __init__(self, folder: Path, slots: int) -> None:
        layout = Layout((Field("fragment", "uint8", (FRAGMENT_BYTES,)),))
        self.couriers = [
            RunningCourier(folder, name, prefix=["ip", "netns", "exec", name], interface="eth0") for name, _ in HOSTS
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
    """Medians over alternating rounds and their ratio."""
    link_rates, iperf_rates = [], []
    with two_hosts(), tempfile.TemporaryDirectory() as folder:
        link = CourierLink(Path(folder), slots)
        link.gb_s(0.5)
        for _ in range(rounds):
            link_rates.append(link.gb_s(seconds))
            iperf_rates.append(iperf_gb_s(seconds))
        link.end()
    courier, iperf = statistics.median(link_rates), statistics.median(iperf_rates)
    return {"courier_gb_s": courier, "iperf3_gb_s": iperf, "ratio": courier / iperf}


def main() -> int:
    """Measure, print, and say by the exit status whether the bar holds."""
    parser = argparse.ArgumentParser(description="courier link throughput between two network namespaces")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    missing = [name for name in ("ip", "iperf3") if shutil.which(name) is None]
    if os.geteuid() != 0 or missing or find_mpiexec() is None:
        print(f"skipped: needs root, mpiexec, ip and iperf3; missing programs: {', '.join(missing) or 'none'}")
        return CANNOT
    result = measure(options.rounds, options.seconds, options.slots)
    print(
        json.dumps(result) if options.json else "\n".join(f"{name:14} {value:7.3f}" for name, value in result.items())
    )
    return 0 if result["ratio"] >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
