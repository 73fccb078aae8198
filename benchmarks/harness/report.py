"""From timelines to the table and the file that the plot is drawn from."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from harness.contenders import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.contenders import Contender
    from harness.timeline import Timeline


def machine() -> dict[str, Any]:
    """Where and from what it was measured."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "commit": commit or "unknown",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def spread(values: Iterable[float | None]) -> tuple[float, float, float] | None:
    """Median, lowest and highest of what there is."""
    known = [value for value in values if value is not None]
    return (median(known), min(known), max(known)) if known else None


def _seconds(lines: Sequence[Timeline], target: float) -> str:
    key = f"{target:g}"
    reached = [line.reached[key] for line in lines if key in line.reached]
    if not reached:
        return f"not reached (0/{len(lines)})"
    # A run that never got there is slower than any that did: it counts as infinitely long in the median.
    everyone = sorted([*reached, *[float("inf")] * (len(lines) - len(reached))])
    middle = median(everyone)
    shown = "beyond the limit" if middle == float("inf") else f"**{middle:.1f}**"
    share = "" if len(reached) == len(lines) else f" ({len(reached)}/{len(lines)} runs)"
    return f"{shown} ({min(reached):.1f}–{max(reached):.1f}){share}"


def _plain(values: Iterable[float | None], scale: float, digits: int) -> str:
    found = spread(values)
    return "–" if found is None else f"{found[0] * scale:,.{digits}f}".replace(",", " ")


def table(contenders: Sequence[Contender], timelines: Sequence[Timeline], targets: Sequence[float]) -> str:
    """Markdown: median (lowest–highest) over the seeds."""
    heads = [f"to {target:g}, s" for target in targets]
    last = f"{max(targets):g}"
    columns = ["system", "settings", *heads, f"env steps to {last}", "env steps/s", "memory, MB", "seeds"]
    rows = [columns, ["---"] * len(columns)]
    for contender in contenders:
        lines = [line for line in timelines if line.contender == contender.name]
        if not lines:
            continue
        rows.append(
            [
                contender.label,
                contender.settings,
                *[_seconds(lines, target) for target in targets],
                _plain([line.reached_steps.get(last) for line in lines], 1.0, 0),
                _plain([line.steps_per_s for line in lines], 1.0, 0),
                _plain([line.peak_pss_bytes or None for line in lines], 1e-6, 0),
                str(len(lines)),
            ]
        )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def document(
    contenders: Sequence[Contender], timelines: Sequence[Timeline], targets: Sequence[float], where: dict[str, Any]
) -> str:
    """The whole Markdown page."""
    return (
        f"# CartPole-v1: time to reward\n\n"
        f"{where['cpu']}, {where['cores']} cores, Python {where['python']}, commit {where['commit']}, {where['date']}, "
        f"load before the start {where['load_before']:.2f}.\n\n"
        "Seconds count from the shell prompt, imports and start-up included, until the mean return of the last 100\n"
        "training episodes is at the target. Median (lowest–highest) over the seeds; a run that never got there\n"
        "counts as infinitely long. Memory: highest sum of PSS over the run's processes, sampled twice a second.\n\n"
        f"{table(contenders, timelines, targets)}\n"
        "![time to reward](time_to_reward.png)\n"
    )
