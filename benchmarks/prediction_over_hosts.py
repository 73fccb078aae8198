"""Do predictions come true over several hosts, and is the plan's shape the fastest that fits? Pretend hosts; root.

Hosts are namespaces of this machine, each with real sshd, network and PID table, with one CPU and a quota of its time,
so that together they never want more than this machine has: no host is slower because of another.

    python benchmarks/prediction_over_hosts.py [--seconds 60] [--warm-up 10] [--bar 0.15] [--pairs 0,1]
        [--hosts 4] [--fastest] [--jobs 0,1] [--noise 0.05]

`--fastest`: for each job every shape that fits is run, and the plan's own choice must not be slower than the best by
more than `--noise`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from prediction import PLAYBOOKS, Expected, Outcome, Pair, chosen, outcome, print_outcome, tianjictl, watch

from runtime.contract.paths import RunPaths
from runtime.contract.plan import Plan
from support.pretend_hosts import PretendHosts
from support.quota import Quota

if TYPE_CHECKING:
    from collections.abc import Sequence

SLOW_ENV = ("env.delay_us=20000",)
SLOW_LEARNER = ("algorithm.network.hidden=[512,512]", "env.delay_us=20000")
PAIRS = (
    Pair("cartpole-ppo", "L1A3", SLOW_ENV),
    Pair("cartpole-ppo", "L2A2", SLOW_ENV),
    Pair("cartpole-dqn", "L1A3", SLOW_ENV),
    Pair("cartpole-ppo", "L1A3", SLOW_LEARNER),
    Pair("cartpole-ppo", "L2A2", SLOW_LEARNER),
)
#: On four hosts and more these want few learners, as many as possible, and something between.
JOBS = (
    Pair("cartpole-ppo", "", SLOW_ENV),
    Pair("cartpole-ppo", "", SLOW_LEARNER),
    Pair("cartpole-ppo", "", ("algorithm.network.hidden=[512,512]", "env.delay_us=100000")),
)
_LEFT_TO_HOSTS = 0.9  #: of this machine's time; the rest is for who watches


class Hosts:
    """Pretend hosts, each with one CPU and its share of this machine's time."""

    def __init__(self, folder: Path, count: int) -> None:
        self.hosts = PretendHosts(folder)
        self.hosts.up(count)
        cpus = sorted(os.sched_getaffinity(0))
        share = min(1.0, _LEFT_TO_HOSTS * len(cpus) / count)
        self._quotas = [Quota(self.hosts.name(number), share) for number in range(count)]
        for number, quota in enumerate(self._quotas):
            for pid in self.hosts.pids(number):
                os.sched_setaffinity(pid, {cpus[number % len(cpus)]})
                quota.hold(pid)
        self.inventory = str(self.hosts.inventory(folder / "hosts.yaml"))

    def close(self) -> None:
        self.hosts.close()
        for quota in self._quotas:
            quota.close()

    def shapes(self) -> list[str]:
        """All that fit on one core each."""
        count = self.hosts.count
        return [f"L{x}A{y}" for x in range(1, count) for y in range(x, count - x + 1)]

    def options(self, pair: Pair) -> list[str]:
        free = ["distributed.learners=auto", "distributed.actors=auto"]
        settings = ["training.stop.reward=null", "training.stop.wall_time=1h", *free, *pair.settings]
        return ["-i", self.inventory, *(word for setting in settings for word in ("--set", setting))]

    def profile(self, pair: Pair) -> None:
        """Measure the hosts and their links anew."""
        tianjictl("profile", str(PLAYBOOKS / f"{pair.job}.yaml"), *self.options(pair), "--refresh", "--json")

    def plan(self, pair: Pair, file: Path) -> Plan:
        """Its shape, or the planner's choice."""
        job = str(PLAYBOOKS / f"{pair.job}.yaml")
        shape = ["--shape", pair.shape] if pair.shape else []
        tianjictl("plan", job, *self.options(pair), *shape, "-o", str(file))
        return Plan.model_validate_json(file.read_bytes())

    def run(self, file: Path, plan: Plan, *, warm_up: float, seconds: float) -> list[dict]:
        """Its views, one a second."""
        run = json.loads(tianjictl("launch", str(file), "-i", self.inventory, "-d", "--json"))["data"]["run_id"]
        head = next(number for number in range(self.hosts.count) if self.hosts.name(number) == plan.head)
        try:
            paths = RunPaths(self.hosts.workdir(head) / "nodes" / plan.head / run)
            seen, _ = watch(plan.model_copy(update={"placements": ()}), paths, warm_up, seconds)
        finally:
            tianjictl("stop", run, "--yes", "--no-checkpoint")
        return seen


def compare(hosts: Hosts, pair: Pair, *, warm_up: float, seconds: float) -> Outcome:
    """Predict, run, and predict again."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.json"
        hosts.profile(pair)
        plan = hosts.plan(pair, file)
        seen = hosts.run(file, plan, warm_up=warm_up, seconds=seconds)
        hosts.profile(pair)
        again = hosts.plan(pair, file)
    return outcome(str(pair), _expected(plan), _expected(again), seen, strangers=0.0)


def _expected(plan: Plan) -> Expected:
    found = plan.predicted
    assert found.env_steps_per_s is not None and found.samples_per_s is not None
    return Expected(found.env_steps_per_s, found.samples_per_s, str(found.bottleneck))


def fastest(hosts: Hosts, job: Pair, *, warm_up: float, seconds: float, noise: float) -> bool:
    """Whether no shape that fits is faster than the planner's choice by more than the noise.

    All are run twice, the second time in the opposite order: none has it better because the machine has changed.
    """
    hosts.profile(job)
    shapes = hosts.shapes()
    measured: dict[str, list[float]] = {shape: [] for shape in shapes}
    expected = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.json"
        choice = hosts.plan(job, file).shape
        for shape in (*shapes, *reversed(shapes)):
            plan = hosts.plan(Pair(job.job, shape, job.settings), file)
            seen = hosts.run(file, plan, warm_up=warm_up, seconds=seconds)
            expected[shape] = _expected(plan).samples_per_s
            measured[shape].append(statistics.median(view["rates"]["samples_per_s"] for view in seen))
    reached = {shape: statistics.mean(twice) for shape, twice in measured.items()}
    best = max(reached, key=lambda shape: reached[shape])
    for shape in sorted(shapes, key=lambda shape: -reached[shape]):
        twice = " and ".join(f"{rate:,.0f}" for rate in measured[shape])
        print(f"  {shape:6} {reached[shape]:11,.0f} samples/s ({twice}), predicted {expected[shape]:,.0f}")
    ratio = reached[choice] / reached[best]
    print(f"{job}: the plan's choice is {choice}, the fastest is {best}; {ratio:.2f} of it", flush=True)
    return ratio >= 1.0 - noise


def main(words: Sequence[str] | None = None) -> int:
    """Compare, print, and say by the exit status whether the bars hold."""
    parser = argparse.ArgumentParser(description="predicted against measured throughput over four pretend hosts")
    parser.add_argument("--pairs", help="numbers of pairs, with commas; all without it, none with --pairs -")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warm-up", type=float, default=10.0)
    parser.add_argument("--bar", type=float, default=0.15)
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--fastest", action="store_true", help="also run every shape that fits")
    parser.add_argument("--jobs", help="numbers of jobs for that, with commas; all without it")
    options = parser.parse_args(words)
    wanted = chosen(options.pairs, PAIRS)
    jobs = chosen(options.jobs, JOBS) if options.fastest else []
    held = True
    with tempfile.TemporaryDirectory(prefix="prediction-") as folder:
        os.environ["TIANJICTL_HOME"] = str(Path(folder) / "state")
        hosts = Hosts(Path(folder), options.hosts)
        try:
            for pair in wanted:
                found = compare(hosts, pair, warm_up=options.warm_up, seconds=options.seconds)
                print_outcome(found)
                held = held and found.off <= options.bar
            for job in jobs:
                timing = {"warm_up": options.warm_up, "seconds": options.seconds}
                held = fastest(hosts, job, noise=options.noise, **timing) and held
        finally:
            hosts.close()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
