"""One run of one contender: start it, watch it, end it, leave nothing behind."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from harness import processes
from harness.contenders import BENCHMARKS, REPOSITORY, Contender
from harness.timeline import Timeline
from harness.venvs import python_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LOOK_EVERY_S = 0.02
MEMORY_EVERY_S = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """What is asked of one run."""

    contender: Contender
    seed: int
    targets: Sequence[float]
    time_limit_s: float
    log: Path  #: everything the run printed


def measure(trial: Trial) -> Timeline:
    """Run once, until the highest target is reached, the time is up or it ends by itself."""
    with tempfile.TemporaryDirectory(prefix="b-", ignore_cleanup_errors=True) as folder:
        return _run_own(trial, Path(folder)) if trial.contender.ours else _run_peer(trial, Path(folder))


class _Memory:
    """Samples the memory of the run's processes twice a second."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline, self._due = timeline, 0.0

    def look(self, elapsed_s: float) -> None:
        if elapsed_s < self._due:
            return
        self._due = elapsed_s + MEMORY_EVERY_S
        self.sample()

    def sample(self) -> None:
        """Now, whether due or not."""
        pss = processes.sum_of_pss(processes.family())
        self._timeline.peak_pss_bytes = max(self._timeline.peak_pss_bytes, pss)


@contextmanager
def _started(
    command: list[str], environment: dict[str, str], folder: Path, *, stdout: int | IO[bytes], log: IO[bytes]
) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """The process and the moment it was started; it and all its descendants are gone afterwards."""
    processes.adopt_orphans()
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=log,
        start_new_session=True,
    )
    try:
        yield process, started
    finally:
        try:
            processes.end_family()
        finally:
            process.wait()
            processes.bury(but=process.pid)
            if process.stdout is not None:
                process.stdout.close()


def _run_peer(trial: Trial, folder: Path) -> Timeline:
    contender = trial.contender
    assert contender.environment is not None
    script, *arguments = contender.script
    targets = [f"{target:g}" for target in trial.targets]
    command = [str(python_of(contender.environment)), str(BENCHMARKS / "peers" / script), *arguments]
    command += ["--seed", str(trial.seed), "--targets", *targets]
    environment = {
        **os.environ,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONUNBUFFERED": "1",
    }
    timeline = Timeline(contender.name, trial.seed)
    with (
        trial.log.open("ab") as log,
        _started(command, environment, folder, stdout=subprocess.PIPE, log=log) as (process, started),
    ):
        assert process.stdout is not None
        _follow_lines(process.stdout, log, timeline, started, _Memory(timeline), trial)
        if not timeline.ended:
            timeline.ended = f"exit {process.wait()}"
    return timeline


def _follow_lines(
    output: IO[bytes], log: IO[bytes], timeline: Timeline, started: float, memory: _Memory, trial: Trial
) -> None:
    """Put the time to each line as it arrives (the protocol of `peers/milestones.py`)."""
    os.set_blocking(output.fileno(), False)
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while (elapsed := time.monotonic() - started) < trial.time_limit_s:
            if not selector.select(timeout=LOOK_EVERY_S):
                memory.look(elapsed)
                continue
            chunk = os.read(output.fileno(), 65536)
            if not chunk:
                return
            log.write(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                _take(line.decode(errors="replace").split(), timeline, time.monotonic() - started)
            if f"{max(trial.targets):g}" in timeline.reached:
                timeline.ended = "target"
                memory.sample()  # a short run may have had no look at all since its processes came up
                return
            memory.look(elapsed)
    timeline.ended = "time limit"


def _take(words: list[str], timeline: Timeline, elapsed_s: float) -> None:
    match words:
        case ["REACHED", target, steps]:
            timeline.target(float(target), elapsed_s, int(steps))
            timeline.progress(elapsed_s, int(steps))
        case ["STEPS", steps]:
            timeline.progress(elapsed_s, int(steps))


def _run_own(trial: Trial, folder: Path) -> Timeline:
    """Launch a job as a person would, attached, with a private state folder; read the run's own view while it goes."""
    command = [
        str(Path(sys.executable).with_name("tianjictl")),
        "launch",
        str(REPOSITORY / trial.contender.script[0]),
        "--yes",
        "--set",
        f"training.seed={trial.seed}",
        "--set",
        f"training.stop.reward={max(trial.targets):g}",
    ]
    environment = {**os.environ, "TIANJICTL_HOME": str(folder / "home"), "TMPDIR": str(folder)}
    timeline = Timeline(trial.contender.name, trial.seed)
    with (
        trial.log.open("ab") as log,
        _started(command, environment, folder, stdout=log, log=log) as (process, started),
    ):
        _follow_view(process, folder / "home" / "runs", timeline, started, _Memory(timeline), trial)
        if timeline.ended == "time limit":
            process.send_signal(signal.SIGTERM)
    return timeline


def _follow_view(
    process: subprocess.Popen[bytes], runs: Path, timeline: Timeline, started: float, memory: _Memory, trial: Trial
) -> None:
    """The highest target counts when `launch` has ended with success: what a person at the prompt would wait for.

    Lower targets count when the view shows them, up to a second late.
    """
    stamp = 0
    while (elapsed := time.monotonic() - started) < trial.time_limit_s:
        code = process.poll()
        for path in runs.glob("*/view.json"):
            if (changed := path.stat().st_mtime_ns) != stamp:
                stamp = changed
                _take_view(json.loads(path.read_bytes()), timeline, elapsed, trial)
        if code is not None:
            _take_end(code, timeline, elapsed, trial)
            return
        memory.look(elapsed)
        time.sleep(LOOK_EVERY_S)
    timeline.ended = "time limit"


def _take_view(view: dict[str, Any], timeline: Timeline, elapsed_s: float, trial: Trial) -> None:
    progress, reward = view["progress"], view["reward"]
    timeline.progress(elapsed_s, progress["env_steps"])
    if progress["updates"] and timeline.first_update_s is None:
        timeline.first_update_s = elapsed_s
    best = reward["best_mean_100"]
    for target in trial.targets:
        if best is not None and best >= target:
            timeline.target(target, elapsed_s, progress["env_steps"])


def _take_end(code: int, timeline: Timeline, elapsed_s: float, trial: Trial) -> None:
    if code != 0:
        timeline.ended = f"exit {code}"
        return
    steps = 0 if timeline.last is None else timeline.last[1]
    timeline.target(max(trial.targets), elapsed_s, steps)
    timeline.ended = "target"
