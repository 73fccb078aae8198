"""Do predictions come true? Profiles, plans and runs pairs of job and shape on this machine, and compares.

For each pair: `tianjictl profile`, `plan` with that shape, `launch -d` without a reward to stop at, and after a warm-up
the median of the rates that the run's view shows, once a second. The view is read from the run folder: each call of
`tianjictl status` would take time from the run. Afterwards it is profiled again: where the speed of the machine itself
has changed meanwhile (that of a virtual one may, by a fifth within minutes), the plan would predict something else now,
and a prediction is off by as much as the measured rate is outside of the two. `strangers` is the share of its time that
the learner was ready and had to wait for its core, on a machine that is not quiet mostly because of others.

    python benchmarks/prediction.py [--pairs 0,3] [--seconds 60] [--warm-up 10] [--bar 0.15] [--precedence]
        [--json]

Exit status 1 if a prediction is further off than the bar.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from runtime.contract.forecast import forecast
from runtime.contract.measurement import MeasureReport
from runtime.contract.paths import RunPaths, runs_home
from runtime.contract.plan import Plan
from runtime.contract.states import Role
from tianjictl.profiling.speeds import host_rates

PLAYBOOKS = Path(__file__).resolve().parents[1] / "playbooks" / "train"


@dataclass(frozen=True)
class Pair:
    """A playbook with settings, and the shape it is run in."""

    job: str
    shape: str
    settings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.job, self.shape, *self.settings))


PAIRS = (
    Pair("cartpole-ppo", "L1A1"),
    Pair("cartpole-ppo", "L1A2"),
    Pair("cartpole-ppo", "L1A2", ("env.delay_us=2000",)),
    Pair("cartpole-ppo", "L2A4", ("env.delay_us=5000",)),
    Pair("cartpole-dqn", "L1A1"),
    Pair("cartpole-dqn", "L1A2", ("env.delay_us=2000",)),
    Pair("cartpole-ppo", "L1A1", ("algorithm.network.hidden=[512,512]",)),
    Pair("cartpole-ppo", "L1A1", ("env.id=Acrobot-v1", "env.num_envs=16", "training.batch_size=1024")),
    Pair("cartpole-ppo", "L2A2"),
    Pair("cartpole-ppo", "L1A1", ("algorithm.epochs=1", "algorithm.minibatch=2048")),
)


class Expected(NamedTuple):
    """What is predicted, and what will hold it back."""

    env_steps_per_s: float
    samples_per_s: float
    side: str


@dataclass(frozen=True)
class Outcome:
    """Rates per second: predicted, predicted by a profile taken afterwards, and the measured median."""

    pair: str
    predicted_steps: float
    afterwards_steps: float
    measured_steps: float
    predicted_samples: float
    afterwards_samples: float
    measured_samples: float
    side: str
    strangers: float
    busy: dict[str, float]

    @property
    def ratios(self) -> tuple[float, float]:
        return self.predicted_steps / self.measured_steps, self.predicted_samples / self.measured_samples

    @property
    def off(self) -> float:
        """By how much the worse of the two is off."""
        return max(
            _off(self.predicted_steps, self.afterwards_steps, self.measured_steps),
            _off(self.predicted_samples, self.afterwards_samples, self.measured_samples),
        )


def _off(before: float, after: float, measured: float) -> float:
    low, high = sorted((before, after))
    return max(0.0, low / measured - 1.0, 1.0 - high / measured)


def tianjictl(*arguments: str) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run([sys.executable, "-m", "tianjictl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"tianjictl {' '.join(arguments)}: {done.stdout[-400:]}{done.stderr[-800:]}")
    return done.stdout


def compare(pair: Pair, *, warm_up: float, seconds: float, precedence: bool) -> Outcome:
    """Predict one pair, run it and predict it again."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.json"
        plan, expected = predict(pair, file)
        run = json.loads(tianjictl("launch", str(file), "-d", "--json"))["data"]["run_id"]
        try:
            paths = RunPaths(runs_home() / run)
            if precedence:
                for component in json.loads(paths.view.read_bytes())["components"]:
                    _go_before_others(component["pid"])
            seen, strangers = watch(plan, paths, warm_up, seconds)
        finally:
            tianjictl("stop", run, "--yes", "--no-checkpoint")
        _, again = predict(pair, file)
    return outcome(str(pair), expected, again, seen, strangers)


def outcome(pair: str, expected: Expected, again: Expected, seen: Sequence[dict], strangers: float) -> Outcome:
    """Both predictions beside the medians of the views."""
    rates = [view["rates"] for view in seen]
    return Outcome(
        pair,
        expected.env_steps_per_s,
        again.env_steps_per_s,
        statistics.median(rate["env_steps_per_s"] for rate in rates),
        expected.samples_per_s,
        again.samples_per_s,
        statistics.median(rate["samples_per_s"] for rate in rates),
        expected.side,
        strangers,
        {c["name"]: round(c["gauges"].get("busy_share", 0.0), 2) for c in seen[-1]["components"]},
    )


def predict(pair: Pair, file: Path) -> tuple[Plan, Expected]:
    """Measure, and plan into `file`."""
    job = str(PLAYBOOKS / f"{pair.job}.yaml")
    settings = ["training.stop.reward=null", "training.stop.wall_time=1h", *pair.settings]
    options = [word for setting in settings for word in ("--set", setting)]
    told = json.loads(tianjictl("profile", job, *options, "--json", "--refresh"))
    report = MeasureReport.model_validate(told["data"]["hosts"][0]["measured"], strict=False)
    tianjictl("plan", job, *options, "--shape", pair.shape, "--oversubscribe", "-o", str(file))
    plan = Plan.model_validate_json(file.read_bytes())
    return plan, _predicted(plan, report)


def _predicted(plan: Plan, report: MeasureReport) -> Expected:
    """As the plan says, else as follows from the profile."""
    said = plan.predicted
    if plan.rates and said.env_steps_per_s is not None and said.samples_per_s is not None:
        return Expected(said.env_steps_per_s, said.samples_per_s, str(said.bottleneck))
    expected = forecast(plan, {plan.head: host_rates(report)})
    assert expected is not None
    return Expected(expected.env_steps_per_s, expected.samples_per_s, expected.side)


def watch(plan: Plan, paths: RunPaths, warm_up: float, seconds: float) -> tuple[list[dict], float]:
    """The views of a run, one a second, and the share of the time that its learners waited for their cores."""
    time.sleep(warm_up)
    learners = {p.name for p in plan.of_role(Role.LEARNER)}
    first = json.loads(paths.view.read_bytes())
    pids = [component["pid"] for component in first["components"] if component["name"] in learners]
    before, began, seen = _waited_s(pids), time.monotonic(), [first]
    while time.monotonic() - began < seconds:
        time.sleep(1.0)
        seen.append(json.loads(paths.view.read_bytes()))
    return seen, (_waited_s(pids) - before) / (time.monotonic() - began) / max(1, len(pids))


def _go_before_others(pid: int) -> None:
    """Sessions share the processors evenly where the kernel groups them, and niceness counts within a session only."""
    os.setpriority(os.PRIO_PROCESS, pid, max(-20, os.getpriority(os.PRIO_PROCESS, pid) - 15))
    group = Path(f"/proc/{pid}/autogroup")
    if group.exists():
        group.write_text("-19")


def _waited_s(pids: Sequence[int]) -> float:
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) for pid in pids) / 1e9


def chosen(numbers: str | None, known: Sequence[Pair]) -> list[Pair]:
    """By their numbers with commas; all without any, none for `-`."""
    if numbers == "-":
        return []
    return [known[int(number)] for number in numbers.split(",")] if numbers else list(known)


def main() -> int:
    """Compare, print, and say by the exit status whether the bar holds."""
    parser = argparse.ArgumentParser(description="predicted against measured throughput")
    parser.add_argument("--pairs", help="numbers of pairs, with commas; all without it")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warm-up", type=float, default=10.0)
    parser.add_argument("--bar", type=float, default=0.15)
    parser.add_argument("--precedence", action="store_true", help="before whatever else is at work here; needs root")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    wanted = chosen(options.pairs, PAIRS)
    if options.precedence:
        _go_before_others(os.getpid())
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="prediction-") as home:
        os.environ.setdefault("TIANJICTL_HOME", home)
        for pair in wanted:
            timing = {"warm_up": options.warm_up, "seconds": options.seconds}
            found = compare(pair, precedence=options.precedence, **timing)
            outcomes.append(found)
            if not options.json:
                print_outcome(found)
    worst = max(outcomes, key=lambda outcome: outcome.off)
    if options.json:
        print(json.dumps([asdict(outcome) | {"off": outcome.off} for outcome in outcomes], indent=1))
    else:
        print(f"worst: {worst.pair}: off by {worst.off:.0%}")
    return 0 if worst.off <= options.bar else 1


def print_outcome(outcome: Outcome) -> None:
    steps, samples = outcome.ratios
    busy = " ".join(f"{name}={share}" for name, share in outcome.busy.items())
    print(outcome.pair)
    for name, predicted, after, measured, ratio in (
        ("env steps/s", outcome.predicted_steps, outcome.afterwards_steps, outcome.measured_steps, steps),
        ("samples/s", outcome.predicted_samples, outcome.afterwards_samples, outcome.measured_samples, samples),
    ):
        print(
            f"  {name:11} {predicted:11,.0f} predicted {measured:11,.0f} measured {ratio:.2f}"
            f"; {after:11,.0f} predicted afterwards {after / measured:.2f}"
        )
    print(f"  off by {outcome.off:.0%}, held by {outcome.side}, strangers {outcome.strangers:.0%}")
    print(f"  busy {busy}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
