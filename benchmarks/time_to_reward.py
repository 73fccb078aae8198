"""Time to reward, throughput and memory of tianjictl and its peers on CartPole-v1, from the shell prompt.

Each peer has a virtual environment of its own below `benchmarks/.venvs`, made on first use. Runs alternate: every
contender plays seed 0, then every contender seed 1, and so on, so that a slow hour of the machine hits all alike.
Results are rewritten after each run: stopping early loses nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.contenders import BENCHMARKS, OURS, PEERS, Contender
from harness.measure import Trial, measure
from harness.report import document, machine
from harness.venvs import python_of, versions_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.timeline import Timeline

LOWER_TARGET = 300.0


def main() -> int:
    options = _arguments()
    contenders = [*_chosen(options.ours, OURS), *_chosen(options.peers, PEERS)]
    targets = sorted({min(LOWER_TARGET, options.target), options.target})
    environments = sorted({contender.environment for contender in contenders if contender.environment})
    for environment in environments:
        python_of(environment)
    options.out.mkdir(parents=True, exist_ok=True)
    where = {**machine(), "versions": {name: versions_of(name) for name in environments}}
    timelines: list[Timeline] = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for contender in contenders:
            log = options.out / f"{contender.name}.{seed}.log"
            log.unlink(missing_ok=True)
            trial = Trial(contender=contender, seed=seed, targets=targets, time_limit_s=options.time_limit, log=log)
            timelines.append(measure(trial))
            print(_line(timelines[-1]), flush=True)
            _write(options.out, contenders, timelines, targets, where)
    print(f"\n{(options.out / 'time_to_reward.md').read_text()}")
    if not options.no_plot:
        picture = options.out / "time_to_reward.png"
        draw = [
            str(python_of("plot")),
            str(BENCHMARKS / "plot.py"),
            str(options.out / "time_to_reward.json"),
            str(picture),
        ]
        subprocess.run(draw, check=True)
        print(f"plot: {picture}")
    return 0 if all(line.ended in ("target", "time limit") for line in timelines) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default="ppo,dqn", help="comma-separated, or `none`")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated, or `none`")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--target", type=float, default=475.0, help="mean return of 100 training episodes")
    parser.add_argument("--time-limit", type=float, default=240.0, help="seconds per run")
    parser.add_argument("--out", type=Path, default=BENCHMARKS / "results")
    parser.add_argument("--no-plot", action="store_true", help="skip the picture and the environment it needs")
    return parser.parse_args()


def _chosen(names: str, known: dict[str, Contender]) -> list[Contender]:
    wanted = [] if names == "none" else names.split(",")
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in wanted]


def _line(timeline: Timeline) -> str:
    reached = "  ".join(f"{target}: {seconds:.1f} s" for target, seconds in timeline.reached.items()) or "–"
    rate = timeline.steps_per_s
    return (
        f"{timeline.contender:12} seed {timeline.seed}  {reached}  {rate or 0:,.0f} steps/s  "
        f"{timeline.peak_pss_bytes / 1e6:,.0f} MB  ({timeline.ended})"
    )


def _write(
    out: Path,
    contenders: Sequence[Contender],
    timelines: Sequence[Timeline],
    targets: Sequence[float],
    where: dict[str, Any],
) -> None:
    labels = {contender.name: f"{contender.label}\n{contender.settings}" for contender in contenders}
    record = {
        "schema_version": 1,
        "machine": where,
        "targets": targets,
        "labels": labels,
        "runs": [timeline.to_json() for timeline in timelines],
    }
    (out / "time_to_reward.json").write_text(json.dumps(record, indent=1))
    (out / "time_to_reward.md").write_text(document(contenders, timelines, targets, where))


if __name__ == "__main__":
    sys.exit(main())
