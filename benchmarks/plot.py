"""Draws `time_to_reward.json`: one bar per system (median), one dot per seed. Needs matplotlib and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt


def main(source: Path, picture: Path) -> None:
    record = json.loads(source.read_text())
    names = [name for name in record["labels"] if any(run["contender"] == name for run in record["runs"])]
    targets = [f"{target:g}" for target in record["targets"]]
    figure, panels = plt.subplots(1, len(targets), sharey=True, figsize=(6 * len(targets), 0.7 * len(names) + 1.6))
    for panel, target in zip([panels] if len(targets) == 1 else panels, targets, strict=True):
        for row, name in enumerate(names):
            runs = [run for run in record["runs"] if run["contender"] == name]
            times = [run["reached"][target] for run in runs if target in run["reached"]]
            colour = "#d95f02" if name.startswith("ours-") else "#7a8793"
            if times:
                panel.barh(row, median(times), color=colour, alpha=0.6)
                panel.plot(times, [row] * len(times), "o", color=colour, markersize=4)
            if missed := len(runs) - len(times):
                panel.annotate(
                    f" {missed} of {len(runs)} not in time", (max(times, default=0), row), va="center", fontsize=8
                )
        panel.set_xlabel(f"seconds from the prompt to a mean return of {target}")
        panel.set_yticks(range(len(names)), [record["labels"][name] for name in names], fontsize=8)
        panel.grid(axis="x", alpha=0.3)
    panels_first = panels if len(targets) == 1 else panels[0]
    panels_first.invert_yaxis()
    machine = record["machine"]
    figure.suptitle(f"CartPole-v1, {machine['cores']} cores, {machine['cpu']}", fontsize=10)
    figure.tight_layout()
    figure.savefig(picture, dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
