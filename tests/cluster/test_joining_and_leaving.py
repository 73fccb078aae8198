"""A host that joins and leaves a training again and again, and what that costs those who stay: nothing."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from support.cluster_runs import STEADY, Operator, Watcher, nothing_left, socket_of
from support.pretend_hosts import PretendHosts, wait

#: How often; the more, the smaller a leak that is seen.
CYCLES = int(os.environ.get("TIANJI_CYCLES", "2"))
GROWTH_KB = 200  #: a cycle, on average, where there are enough of them for an average to say something
ONCE_KB = 2000  #: in any case: what grows once and no more, such as a heap with holes
ENOUGH = 10

JOB = STEADY | {
    "distributed": {"learners": 1, "actors": 4, "oversubscribe": True},
    "elastic": {"min": "L1A2", "max": "L2A8"},
    "training": {"stop": {"wall_time": f"{10 + CYCLES}m"}},
}
STAYING = {(0, "agent"), (0, "forkserver"), (0, "coordinator"), (1, "agent"), (1, "forkserver")}

pytestmark = pytest.mark.timeout(120 + 45 * CYCLES)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cost:
    """What a process holds."""

    pid: int
    open: Counter[str]
    kb: int

    @property
    def descriptors(self) -> int:
        return self.open.total()


def typed(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")


def memory_kb(pid: int) -> int:
    """Its share of anonymous and shared memory; not of files, which others on this machine map as well."""
    lines = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]]
    return sum(int(words[1]) for words in lines if words[0] in ("Pss_Anon:", "Pss_Shmem:"))


def processes(hosts: PretendHosts, run: str) -> dict[tuple[int, str], int]:
    """PIDs of those who see to a run on the hosts that stay, by host and part."""
    found = {}
    for number in (0, 1):
        for pid in hosts.processes_of(number, run):
            words = typed(pid)
            called = Path(f"/proc/{pid}/comm").read_text().strip()
            # Components and couriers are the forkserver's children and have its command line, but names of their own.
            if "runtime" in words and called.startswith("python"):
                found[number, words[words.index("runtime") + 1]] = pid
    return found


def costs(pids: dict[tuple[int, str], int]) -> dict[tuple[int, str], Cost]:
    return {who: Cost(pid, open_files(pid), memory_kb(pid)) for who, pid in pids.items()}


def open_files(pid: int) -> Counter[str]:
    """What a process has open; one that is closed meanwhile is left out."""
    found: Counter[str] = Counter()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            found[os.readlink(entry.path)] += 1  # noqa: PTH115 - mostly no paths
    return found


def as_many_descriptors(pids: dict[tuple[int, str], int], first: dict[tuple[int, str], Cost]) -> None:
    """Wait until each has as many as it had then: some are closed a little later."""
    wanted = {who: cost.descriptors for who, cost in first.items()}
    try:
        wait(lambda: {who: c.descriptors for who, c in costs(pids).items()} == wanted, "no more descriptors", 5)
    except AssertionError as error:
        for who, cost in costs(pids).items():
            more, fewer = cost.open - first[who].open, first[who].open - cost.open
            if more or fewer:
                error.add_note(f"{who} has opened {dict(more)} and closed {dict(fewer)}")
        raise


@pytest.fixture
def operator(tmp_path: Path, pretend_hosts: PretendHosts) -> Operator:
    return Operator(tmp_path / "home", pretend_hosts.inventory(tmp_path / "two.yaml", range(2)))


@pytest.fixture
def run(operator: Operator, tmp_path: Path, pretend_hosts: PretendHosts) -> Iterator[str]:
    path = tmp_path / "steady.yaml"
    path.write_text(yaml.safe_dump({"name": "steady", **JOB}, sort_keys=False))
    run = operator.launch(path)
    yield run
    operator.type("stop", run, "--yes")
    assert nothing_left(pretend_hosts, run)


def scaled(operator: Operator, run: str, *words: str) -> None:
    done = operator.type("scale", run, *words, "--yes")
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"


def test_a_host_that_joins_and_leaves_again_and_again_costs_the_others_nothing(
    pretend_hosts: PretendHosts, operator: Operator, run: str, tmp_path: Path
) -> None:
    three = str(pretend_hosts.inventory(tmp_path / "three.yaml", range(3)))
    after: list[dict[tuple[int, str], Cost]] = []
    with Watcher(socket_of(pretend_hosts, run)) as watcher:
        watcher.until(lambda look: look.view["state"] == "running" and look.updates > 10 and look.linked, "it runs", 60)
        # The coordinator loads TensorBoard with its first line of metrics, once: 8 MB that no host costs.
        metrics = socket_of(pretend_hosts, run).parent / "tensorboard"
        wait(lambda: any(metrics.glob("events.*")), "there are metrics", 60)
        began = watcher.looks[-1].at
        pids = processes(pretend_hosts, run)
        assert set(pids) == STAYING
        for _ in range(CYCLES):
            scaled(operator, run, "L1A6", "--add-host", "cn03", "-i", three)
            joined = watcher.until(lambda look: look.linked and look.view["shape"]["present"] == "L1A6", "it is in", 20)
            assert {c["role"] for c in joined.view["components"] if c["host"] == "cn03"} == {"actor", "courier"}
            scaled(operator, run, "L1A4", "--remove-host", "cn03")
            watcher.until(
                lambda look: look.linked and "cn03" not in look.hosts() and look.view["state"] == "running",
                "it is out",
                20,
            )
            wait(lambda: pretend_hosts.processes_of(2, run) == [], "nothing of it is left there")
            if after:
                as_many_descriptors(pids, after[0])
            after.append(costs(pids))
            log.info("%s", {f"{n}.{part}": (c.descriptors, c.kb) for (n, part), c in after[-1].items()})
        assert processes(pretend_hosts, run) == pids, "somebody who stays was replaced"
        assert watcher.longest_gap_s(began) < 2.0
        assert watcher.never_back()
        assert all(look.balanced for look in watcher.looks)
    for who, cost in after[-1].items():
        grown = cost.kb - after[0][who].kb
        assert grown < ONCE_KB + GROWTH_KB * CYCLES, f"{who}: {[costs_then[who].kb for costs_then in after]} kB"
        if CYCLES >= ENOUGH:
            assert grown / (CYCLES - 1) < GROWTH_KB, f"{who}: {[costs_then[who].kb for costs_then in after]} kB"
