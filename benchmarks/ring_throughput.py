"""How fast a ring moves blocks between two processes, beside what one process does alone; and what waiting costs.

The buffer (S slots of 512 KB) is of the same size in all loops, and each visits its slots in turn.

- *through*: one process, one core, copies blocks through the buffer: source into slot, slot into a destination.
- *alone*: the same, but the slot is read (an int64 sum of every byte, which is checked) and not copied out: what
  the two ends of the ring do, in one process and without synchronisation.
- *ring*: a producer process copies into the slots of a `runtime.memory` ring and commits; a consumer process on another
  core (where there is one) waits by eventfd, sums and releases. Timed from the first commit after a warm-up of two laps
  until the last block is released.

*fill only* is the alone loop without its reading half: the upper bound for any loop whose producer fills by copying.
*ring by CPU* is the rate at which the ring would go if its two ends never waited for a core: blocks per CPU second of
the end that needs more. On a quiet machine with two cores it is near *ring*; on a busy one it says what the ring costs.
Rounds alternate between the loops, and medians are compared, so that a noisy machine disturbs all alike.

*idle*: CPU time of a consumer that waits on an empty ring with a 50 ms timeout, as a share of one core.

    python benchmarks/ring_throughput.py [--rounds 9] [--blocks 3000] [--slots 8] [--json]

Exit status 1 if the ring is below 80 % of *through*, or waiting costs 2 % of a core or more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from runtime.memory.eventfd import EventFd
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import Consumer, Producer, Ring, RingSpec
from runtime.memory.segment import Segment

BLOCK_BYTES = 512 * 1024
LAYOUT = Layout((Field("block", "int64", (BLOCK_BYTES // 8,)),))
WAIT_S = 0.05
RATIO_BAR = 0.80
IDLE_BAR = 0.02


@dataclass
class SharedRing:
    """A ring in a memfd with its two eventfds."""

    spec: RingSpec
    segment: Segment
    data_ready: EventFd
    space_ready: EventFd

    @classmethod
    def create(cls, slots: int) -> SharedRing:
        spec = RingSpec("throughput", LAYOUT, slots)
        segment = Segment.create(spec.name, spec.nbytes)
        Ring.format(segment, spec)
        return cls(spec, segment, EventFd.create(), EventFd.create())

    def producer(self) -> Producer:
        return Producer(self.segment, self.spec, data_ready=self.data_ready, space_ready=self.space_ready)

    def consumer(self) -> Consumer:
        return Consumer(self.segment, self.spec, data_ready=self.data_ready, space_ready=self.space_ready)


def in_child(work: Callable[[], None], core: int) -> int:
    """Fork a process pinned to `core` that does `work`; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.sched_setaffinity(0, {core})
        work()
        code = 0
    finally:
        os._exit(code)


def join(pid: int) -> float:
    """Wait for a child and return its CPU seconds; raise if it failed."""
    _, status, usage = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"the consumer failed with wait status {status}")
    return usage.ru_utime + usage.ru_stime


def consume(ring: SharedRing, blocks: int, expected: int) -> None:
    """Read every byte of `blocks` blocks and release each."""
    consumer = ring.consumer()
    for _ in range(blocks):
        while (slot := consumer.peek()) is None:
            ring.data_ready.wait(WAIT_S)
            ring.data_ready.drain()
        if int(slot.fields["block"].sum()) != expected:
            raise RuntimeError(f"slot {slot.sequence} does not hold the source block")
        consumer.release(consumed=slot.samples)


def ring_rates(slots: int, blocks: int, source: np.ndarray, core: int) -> tuple[float, float]:
    """Blocks per second through a ring to a process on `core`: by the wall clock, by the busier end's CPU time."""
    ring, warm_up = SharedRing.create(slots), 2 * slots
    child = in_child(lambda: consume(ring, warm_up + blocks, int(source.sum())), core)
    producer = ring.producer()
    cpu = time.process_time()

    def wait_for_space() -> None:
        ring.space_ready.wait(WAIT_S)
        ring.space_ready.drain()

    began = 0.0
    for block in range(warm_up + blocks):
        while (slot := producer.acquire()) is None:
            wait_for_space()
        if block == warm_up:
            began = time.perf_counter()
        np.copyto(slot.fields["block"], source)
        producer.commit(1)
    cpu = time.process_time() - cpu
    child_cpu = join(child)
    rate = blocks / (time.perf_counter() - began)
    ring.segment.close()
    ring.data_ready.close()
    ring.space_ready.close()
    return rate, (warm_up + blocks) / max(cpu, child_cpu)


def alone_rate(slots: int, blocks: int, source: np.ndarray, *, read: bool = False, out: bool = False) -> float:
    """Blocks per second of one process that fills the slots of a buffer in turn, and reads or copies them if told."""
    buffer, expected = np.zeros((slots, source.size), source.dtype), int(source.sum())
    destination = np.zeros_like(source)
    began = time.perf_counter()
    for block in range(blocks):
        slot = buffer[block % slots]
        np.copyto(slot, source)
        if read and int(slot.sum()) != expected:
            raise RuntimeError("the buffer does not hold the source block")
        if out:
            np.copyto(destination, slot)
    return blocks / (time.perf_counter() - began)


def idle_share(seconds: float) -> float:
    """CPU seconds per second of a consumer that waits on an empty ring."""
    ring = SharedRing.create(2)
    consumer = ring.consumer()
    cpu, began = time.process_time(), time.perf_counter()
    while time.perf_counter() - began < seconds:
        if consumer.peek() is None:
            ring.data_ready.wait(WAIT_S)
            ring.data_ready.drain()
    return (time.process_time() - cpu) / (time.perf_counter() - began)


def measure(rounds: int, blocks: int, slots: int) -> dict[str, float]:
    """Medians over alternating rounds, in GB/s of blocks, and their ratios."""
    source = np.arange(BLOCK_BYTES // 8, dtype=np.int64)
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[0]})
    rates: dict[str, list[float]] = {"ring": [], "ring_by_cpu": [], "through": [], "alone": [], "fill_only": []}
    for _ in range(rounds):
        by_wall, by_cpu = ring_rates(slots, blocks, source, allowed[-1])
        rates["ring"].append(by_wall)
        rates["ring_by_cpu"].append(by_cpu)
        rates["through"].append(alone_rate(slots, blocks, source, out=True))
        rates["alone"].append(alone_rate(slots, blocks, source, read=True))
        rates["fill_only"].append(alone_rate(slots, blocks, source))
    result = {f"{name}_gb_s": statistics.median(values) * BLOCK_BYTES / 1e9 for name, values in rates.items()}
    result["ratio"] = result["ring_gb_s"] / result["through_gb_s"]
    result["ratio_to_alone"] = result["ring_gb_s"] / result["alone_gb_s"]
    result["ratio_to_fill_only"] = result["ring_gb_s"] / result["fill_only_gb_s"]
    result["ratio_worst_round"] = min(ring / one for ring, one in zip(rates["ring"], rates["through"], strict=True))
    result["idle_core_share"] = idle_share(3.0)
    return result


def main() -> int:
    """Measure, print, and say by the exit status whether both bars hold."""
    parser = argparse.ArgumentParser(description="ring throughput between two processes")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--blocks", type=int, default=3000)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options.rounds, options.blocks, options.slots)
    if options.json:
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        for name, value in result.items():
            sys.stdout.write(f"{name:20} {value:8.4f}\n")
    held = result["ratio"] >= RATIO_BAR and result["idle_core_share"] < IDLE_BAR
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
