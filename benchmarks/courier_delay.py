"""How long a policy takes from its publication on the learner's host until it is seen on the actor's.

Two pretend hosts on one machine, a real courier in each, a board mirrored from the first to the second. The publication
is stamped before it is made and seen by a reader that waits for the event of the mirrored board. Once with nothing else
on the link, once with fragments going the other way as fast as they can. Needs root, sshd and iproute2.

    python benchmarks/courier_delay.py [--publications 500] [--every 0.02] [--parameters 10000] [--json]

Exit status 77 if it cannot be measured here.
"""

from __future__ import annotations

import argparse
import json
import select
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from runtime.courier.codec import BoardCodec
from runtime.memory.board import BoardSpec
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import RingSpec
from support.couriers import NodeBoard, NodeRing, RunningCourier, join, until
from support.pretend_hosts import PretendHosts, take_precedence, why_not

CANNOT = 77
FRAGMENT_BYTES = 100 * 1024  # what 64 CartPoles make in 32 steps
SLOTS = 4


class Crossing:
    """A board one way and a ring the other."""

    def __init__(self, hosts: PretendHosts, parameters: int) -> None:
        policy = Layout((Field("params", "float32", (parameters,)), Field("progress", "int64", (4,))))
        fragment = Layout((Field("fragment", "uint8", (FRAGMENT_BYTES,)),))
        self.couriers = [
            RunningCourier(hosts.folder, name, prefix=hosts.enter(number, network_only=True), interface="eth0")
            for number, name in enumerate(hosts.names)
        ]
        learner, actor = self.couriers
        self.home, self.copy = NodeBoard(BoardSpec("home", policy)), NodeBoard(BoardSpec("copy", policy))
        self.near, self.far = (
            NodeRing(RingSpec("near", fragment, SLOTS)),
            NodeRing(RingSpec("far", fragment, SLOTS + 1)),
        )
        self.home.mirror(learner, actor.name, 1, "send", BoardCodec.PLAIN)
        self.copy.mirror(actor, learner.name, 1, "receive", BoardCodec.PLAIN)
        self.near.mirror(actor, learner.name, 2, "send")
        self.far.mirror(learner, actor.name, 2, "receive")
        join(learner, actor)
        self.writer, self.reader = self.home.writer(), self.copy.reader()
        self.version = 0

    def delay_ms(self) -> float:
        """Of one publication."""
        self.version += 1
        began = time.perf_counter()
        self.writer.begin()["params"].fill(self.version)
        self.writer.publish(self.version)
        while self.reader.version != self.version:
            select.select([self.copy.published], [], [], 1.0)
            self.copy.published.drain()
        return (time.perf_counter() - began) * 1e3

    def flow(self, over: threading.Event, counted: list[int]) -> None:
        """Fragments as fast as they can until `over`."""
        producer, consumer = self.near.producer(), self.far.consumer()
        events = (self.near.events[1], self.far.events[0])
        while not over.is_set():
            while producer.acquire() is not None:
                producer.commit(1)
            for event in select.select(events, [], [], 0.05)[0]:
                event.drain()
            while (slot := consumer.peek()) is not None:
                consumer.release(consumed=slot.samples)
                counted[0] += 1

    def end(self) -> None:
        for courier in self.couriers:
            courier.end()


def percentiles(crossing: Crossing, publications: int, every_s: float) -> dict[str, float]:
    """p50, p99 and the longest, in milliseconds."""
    delays = []
    for _ in range(publications):
        delays.append(crossing.delay_ms())
        time.sleep(every_s)
    found = np.percentile(delays, (50, 99, 100))
    return dict(zip(("p50_ms", "p99_ms", "max_ms"), map(float, found), strict=True))


def measure(publications: int, every_s: float, parameters: int) -> dict[str, dict[str, float]]:
    """Both cases."""
    with tempfile.TemporaryDirectory() as folder:
        hosts = PretendHosts(Path(folder))
        try:
            hosts.up(2)
            crossing = Crossing(hosts, parameters)
            until(lambda: all(one.view().links[0].up for one in crossing.couriers), "the link is up")
            quiet = percentiles(crossing, publications, every_s)
            over, counted = threading.Event(), [0]
            flowing = threading.Thread(target=crossing.flow, args=(over, counted))
            flowing.start()
            began = time.perf_counter()
            loaded = percentiles(crossing, publications, every_s)
            loaded["fragments_per_s"] = counted[0] / (time.perf_counter() - began)
            over.set()
            flowing.join()
            crossing.end()
        finally:
            hosts.close()
    return {"nothing else": quiet, "fragments the other way": loaded}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="delay of a mirrored board between two pretend hosts")
    parser.add_argument("--publications", type=int, default=500)
    parser.add_argument("--every", type=float, default=0.02, help="seconds between publications")
    parser.add_argument("--parameters", type=int, default=10_000, help="float32 numbers in a policy")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if (reason := why_not()) is not None:
        print(f"skipped: {reason}")
        return CANNOT
    take_precedence()
    result = measure(options.publications, options.every, options.parameters)
    if options.json:
        print(json.dumps(result))
    else:
        for name, found in result.items():
            print(f"{name:24}", "  ".join(f"{key} {value:.2f}" for key, value in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
