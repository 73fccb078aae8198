"""`python -m runtime measure JSON`: measures this node and prints a MeasureReport; progress goes to standard error.

A second form, `learner CORES JSON`, measures a learner alone with CORES cores; the first form starts it, because the
number of BLAS threads is fixed when numpy is loaded.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from runtime.contract.measurement import (
    ActorRate,
    LearnerRate,
    MeasureProgress,
    MeasureReport,
    MeasureRequest,
    Spread,
)
from runtime.envs.errors import EnvError
from runtime.measure.bench import Bench
from runtime.measure.clocking import pin, repeated, spread
from runtime.measure.machine import Copying, write_mb_per_s
from runtime.measure.processes import busy_neighbours, with_threads

_MOST_NEIGHBOURS = 7  #: more cores than that disturb each other no further within a few seconds of measuring
_LEARNER_TIMEOUT_S = 120.0


def main(argv: Sequence[str]) -> int:
    """Exit code 0 with the report on standard output, 2 with `{"error": …}` there for a request that cannot be met."""
    try:
        if len(argv) == 3 and argv[0] == "learner":
            cores, request = int(argv[1]), MeasureRequest.model_validate_json(argv[2])
            sys.stdout.write(_learner(request, cores).model_dump_json() + "\n")
        elif len(argv) == 1:
            sys.stdout.write(measure(MeasureRequest.model_validate_json(argv[0])).model_dump_json() + "\n")
        else:
            return _failed("usage: measure JSON, where JSON is a MeasureRequest")
    except (EnvError, ValidationError, OSError) as error:
        return _failed(f"{type(error).__name__}: {error}")
    return 0


def measure(request: MeasureRequest) -> MeasureReport:
    """Measure everything; binds this process to the first of the request's cores."""
    pin(request.cores[:1])
    neighbours = request.cores[1 : 1 + _MOST_NEIGHBOURS]
    several = [cores for cores in request.learner_cores if cores > 1]
    progress = _Progress(total=4 + bool(neighbours) + len(several))
    bench = Bench(request)
    progress.next("an actor alone on a core")
    actors = [_actor(request, bench, 0)]
    if neighbours:
        progress.next(f"an actor beside {len(neighbours)} busy cores")
        with busy_neighbours(neighbours, lambda: Bench(request).actor_steps_per_s):
            actors.append(_actor(request, bench, len(neighbours)))
    progress.next("a learner and its buffer")
    learner, buffer = _group(request, bench)
    bench.close()
    learners = [LearnerRate(cores=1, samples_per_s=learner)]
    for cores in several:
        progress.next(f"a learner on {cores} cores")
        out = with_threads(("learner", str(cores), request.model_dump_json()), cores, timeout_s=_LEARNER_TIMEOUT_S)
        learners.append(LearnerRate.model_validate_json(out))
    progress.next("copying memory")
    copying = repeated(Copying().mb_per_s, request.seconds / 4)
    progress.next("writing a checkpoint")
    writing = repeated(lambda: write_mb_per_s(Path(request.folder)), request.seconds / 4)
    return MeasureReport(
        actors=tuple(actors),
        learners=tuple(learners),
        fragment_samples=request.sizes.fragment_samples,
        buffer_s_per_fragment=buffer,
        memcpy_mb_per_s=copying,
        checkpoint_mb_per_s=writing,
    )


def _actor(request: MeasureRequest, bench: Bench, neighbours: int) -> ActorRate:
    rate = repeated(bench.actor_steps_per_s, request.seconds)
    return ActorRate(num_envs=request.sizes.num_envs, busy_neighbours=neighbours, steps_per_s=rate)


def _group(request: MeasureRequest, bench: Bench) -> tuple[Spread, Spread]:
    """Samples per second of the learner, seconds per fragment of the buffer."""
    buffer: list[float] = []

    def learner() -> float:
        samples_per_s, fragment_s = bench.batch_costs()
        buffer.append(fragment_s)
        return samples_per_s

    rate = repeated(learner, request.seconds)
    return rate, spread(buffer[1:] or buffer)


def _learner(request: MeasureRequest, cores: int) -> LearnerRate:
    pin(request.cores[-cores:])
    bench = Bench(request)
    rate, _ = _group(request, bench)
    bench.close()
    return LearnerRate(cores=cores, samples_per_s=rate)


class _Progress:
    """Tells on standard error what is being done; one JSON line each."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def next(self, doing: str) -> None:
        line = MeasureProgress(doing=doing, done=self._done, total=self._total)
        os.write(2, line.model_dump_json().encode() + b"\n")
        self._done += 1


def _failed(message: str) -> int:
    sys.stdout.write(json.dumps({"error": message}) + "\n")
    return 2
