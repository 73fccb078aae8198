"""A run over pretend hosts, as its operator sees it, and as a fast look at its coordinator sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.contract.operator import ViewRequest, ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.pretend_hosts import PretendHosts

ROOT = Path(__file__).resolve().parents[2]
LOOK_EVERY_S = 0.1
#: How much longer than promised anything may take: four hosts on two busy cores are no cluster. TIANJI_PATIENCE=1 holds
#: everything to its word, on a machine that is busy with nothing else.
PATIENCE = float(os.environ.get("TIANJI_PATIENCE", "4"))
_OWN_LOAD = 2.0  #: processes of one cluster that want a core at a time, for each core there is

#: A training that takes its time: environments sleep, so that many actors make sense on few cores.
STEADY = {
    "env": {"id": "CartPole-v1", "num_envs": 8, "delay_us": 20_000},
    "algorithm": {"name": "ppo", "rollout": 16},
    "distributed": {"learners": 2, "actors": 8, "oversubscribe": True},
    "training": {"stop": {"wall_time": "10m"}},
    "checkpoint": {"every": "5s"},
    "elastic": {"min": "L1A2", "max": "L4A16"},
    "health": {"steady": "15s"},  # a component that a busy machine lets wait is not frozen
}


def patience() -> float:
    """`PATIENCE`, and more of it where the machine is busy with other things, too."""
    return PATIENCE * max(1.0, os.getloadavg()[0] / (_OWN_LOAD * len(os.sched_getaffinity(0))))


def socket_of(hosts: PretendHosts, run: str) -> Path:
    """The control socket on the head: the files of pretend hosts are this machine's."""
    return hosts.workdir(0) / "nodes" / hosts.name(0) / run / "control.sock"


def nothing_left(hosts: PretendHosts, run: str) -> bool:
    return all(hosts.processes_of(number, run) == [] for number in range(hosts.count))


def in_time(seconds: float, promised_s: float, what: str) -> bool:
    """Whether something took no longer than promised, with the machine's patience."""
    print(f"{what} after {seconds:.2f} s, promised {promised_s:g} s")  # noqa: T201 - shown by -s
    return seconds < promised_s * patience()


class Operator:
    """Types commands, with a state folder of its own."""

    def __init__(self, home: Path, inventory: Path) -> None:
        self.home, self.inventory = home, inventory

    def type(self, *words: str, within_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        environment = os.environ | {"TIANJICTL_HOME": str(self.home), "NO_COLOR": "1"}
        command = [sys.executable, "-m", "tianjictl", *words]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=within_s, check=False
        )

    def ask(self, *words: str, within_s: float = 120.0) -> Any:
        """The data of a command's JSON document; AssertionError where it fails."""
        done = self.type(*words, "--json", within_s=within_s)
        assert done.returncode == 0, f"{words}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)["data"]

    def launch(self, job: Path | str, *words: str, within_s: float = 120.0) -> str:
        """Start a run in the background; its id."""
        data = self.ask("launch", str(job), "-i", str(self.inventory), "-d", *words, within_s=within_s)
        return str(data["run_id"])

    def status(self, run: str) -> Any:
        return self.ask("status", run)


@dataclass
class Look:
    """What was seen at one moment (monotonic seconds)."""

    at: float
    view: dict[str, Any]

    @property
    def updates(self) -> int:
        return int(self.view["progress"]["updates"])

    @property
    def balanced(self) -> bool:
        """Whether every sample made is accounted for."""
        s = self.view["samples"]
        rest = s["consumed"] + s["dropped_stale"] + s["dropped_other"] + s["in_flight"]
        return bool(s["produced"] == rest)

    @property
    def linked(self) -> bool:
        """Whether every link that the run needs is up."""
        return {link["state"] for link in self.view["links"]} == {"up"}

    def states(self) -> dict[str, str]:
        return {c["name"]: c["state"] for c in self.view["components"]}

    def hosts(self) -> dict[str, str]:
        return {host["name"]: host["state"] for host in self.view["hosts"]}


@dataclass
class Watcher:
    """Looks at the coordinator through its socket some times a second: pretend hosts share this machine's files."""

    socket: Path
    looks: list[Look] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Watcher:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            try:
                reply = ask(self.socket, ViewRequest(), timeout_s=2.0)
            except (OSError, ValueError):
                continue  # nobody there at the moment, or in the middle of a word
            if reply.ok:
                self.looks.append(Look(time.monotonic(), reply.data))

    def until(self, true: Callable[[Look], bool], what: str, within_s: float) -> Look:
        """The first look from now on at which it is true; AssertionError with the newest one if there is none."""
        within_s *= patience()
        deadline, seen = time.monotonic() + within_s, len(self.looks)
        while time.monotonic() < deadline:
            while seen < len(self.looks):
                look = self.looks[seen]
                seen += 1
                if true(look):
                    return look
            time.sleep(LOOK_EVERY_S / 2)
        newest = self.looks[-1] if self.looks else None
        told = (
            f"{newest.view['state']}: {newest.view['reason']}; {newest.hosts()}; {newest.states()}"
            if newest
            else "nothing"
        )
        raise AssertionError(f"not within {within_s:g} s: {what}. Seen last: {told}")

    def longest_gap_s(self, since: float, until: float | None = None) -> float:
        """The longest time without a new update between two moments."""
        longest, moved, updates = 0.0, since, -1
        for look in self.looks:
            if look.at < since or (until is not None and look.at > until):
                continue
            if look.updates > updates:
                longest, moved, updates = max(longest, look.at - moved), look.at, look.updates
        return max(longest, (until if until is not None else moved) - moved)

    def kept_updating(self, since: float, promised_s: float) -> bool:
        """Whether no two updates since then were further apart than promised."""
        gap = self.longest_gap_s(since)
        print(f"longest gap between updates {gap:.2f} s, promised {promised_s:g} s")  # noqa: T201 - shown by -s
        return gap < promised_s * patience()

    def never_back(self) -> bool:
        """Whether no counter of the run ever went back."""
        counters = [
            (look.view["progress"]["env_steps"], look.updates, look.view["progress"]["episodes"]) for look in self.looks
        ]
        return all(all(b >= a for a, b in zip(one, two, strict=True)) for one, two in pairwise(counters))
