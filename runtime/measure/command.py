"""`python -m runtime measure JSON`: measures this node and prints a MeasureReport; progress goes to standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.forecast import trained_per_step
from runtime.contract.measurement import (
    ActorRate,
    LearnerRate,
    MeasureProgress,
    MeasureReport,
    MeasureRequest,
    Spread,
    TurnRate,
)
from runtime.control.forkserver import import_for
from runtime.envs.errors import EnvError
from runtime.measure import plans
from runtime.measure.actors import alone, among_others, crowd_on
from runtime.measure.bench import Bench
from runtime.measure.clocking import pin, repeated, spread
from runtime.measure.couriers import courier_cpu_s
from runtime.measure.groups import Group, GroupRates
from runtime.measure.machine import Copying, write_mb_per_s
from runtime.measure.stage import MeasureError

if TYPE_CHECKING:
    import numpy as np

    from runtime.contract.plan import Sizes

_MOST_FEEDING = 8  #: actors; where it would take more, fragments are made up instead
_MARGIN = 1.15  #: by which those who feed a learner must be faster than it
_QUICK = 20_000.0  #: steps per second of an actor: with less, a few seconds teach nothing
_GAIN = 1.05  #: a learner that gains less from twice the cores is saturated
_ESTIMATE_S = 0.25  #: for a learner by turns
_OTHERS_S = 0.2  #: the same with other sizes


def main(argv: Sequence[str]) -> int:
    """Exit code 0 with the report on standard output, 2 with `{"error": …}` there for a request that cannot be met."""
    if len(argv) != 1:
        return _failed("usage: measure JSON, where JSON is a MeasureRequest")
    try:
        report = measure(MeasureRequest.model_validate_json(argv[0]))
    except (EnvError, ValidationError, OSError) as error:
        return _failed(f"{type(error).__name__}: {error}")
    except MeasureError as error:
        return _failed(str(error))
    sys.stdout.write(report.model_dump_json() + "\n")
    return 0


def measure(request: MeasureRequest) -> MeasureReport:
    """Measure everything. Who steers it floats over the request's cores, and sleeps most of the time."""
    pin(request.cores)
    import_for(plans.small_plan(request, learner=request.cores, buffer=request.cores, actors=()))
    several = (request.learner_cores, _other_envs(request))
    progress = _Progress(total=4 + sum(map(len, several)) + (len(request.cores) > 1) + request.couriers)
    progress.next("an actor alone")
    actors = [alone(request, request.seconds / 2)]
    progress.next("a learner and its buffer by turns")
    turns = list(by_turns(request))
    trials = list(_learners(request, progress, actors[0], 1.0 / turns[0].learner_s_per_sample))
    actors += _actors(request, progress, trials[0].policy)
    courier = _courier(request, progress) if request.couriers else None
    progress.next("copying memory")
    copying = repeated(Copying().mb_per_s, request.seconds / 4)
    progress.next("writing a checkpoint")
    writing = repeated(lambda: write_mb_per_s(Path(request.folder)), request.seconds / 4)
    return MeasureReport(
        actors=tuple(actors),
        learners=tuple(trial.learner for trial in trials),
        fragment_samples=request.sizes.fragment_samples,
        buffer_s_per_fragment=spread([max(turns[0].buffer_s_per_fragment, trials[0].receive_s)]),
        buffer_cpu_s_per_fragment=trials[0].buffer_cpu_s,
        courier_cpu_s_per_fragment=courier,
        memcpy_mb_per_s=copying,
        checkpoint_mb_per_s=writing,
        by_turns=tuple(turns),
        strangers=trials[0].strangers,
    )


def _actors(request: MeasureRequest, progress: _Progress, policy: np.ndarray | None) -> Iterator[ActorRate]:
    """Beside as much work as a run has, and so with other numbers of environments."""
    several = len(request.cores) > 1
    if several:
        progress.next(f"an actor beside {len(request.cores) - 1} busy core(s)")
        yield among_others(request, request.seconds, policy=policy)
    for num_envs in _other_envs(request):
        progress.next(f"an actor with {num_envs} environments")
        sizes = request.sizes.model_copy(update={"num_envs": num_envs})
        if several:
            yield among_others(request, request.seconds / 2, sizes, policy)
        else:
            yield alone(request, request.seconds / 2, sizes)


def _other_envs(request: MeasureRequest) -> list[int]:
    """Numbers of environments to try an actor with, besides the usual one."""
    numbers = dict.fromkeys(sizes.num_envs for sizes in request.other_sizes)
    return [number for number in numbers if number != request.sizes.num_envs]


def by_turns(request: MeasureRequest) -> Iterator[TurnRate]:
    """A learner and its buffer on one core with the usual sizes, then with each other batch.

    Where an update takes long already, what it costs beside its samples is nothing: a larger one is not waited for.
    """
    before = os.sched_getaffinity(0)
    pin(request.cores[:1])
    usual = _turn(request, request.sizes, _ESTIMATE_S)
    yield usual
    longest = max(_ESTIMATE_S, usual.batch_size * usual.learner_s_per_sample)
    known = {usual.batch_size}
    for sizes in request.other_sizes:
        if sizes.batch_size in known or sizes.batch_size * usual.learner_s_per_sample > longest:
            continue
        known.add(sizes.batch_size)
        yield _turn(request, sizes, _OTHERS_S)
    os.sched_setaffinity(0, before)


def _turn(request: MeasureRequest, sizes: Sizes, seconds: float) -> TurnRate:
    bench = Bench(request, sizes)
    receive: list[float] = []

    def learner() -> float:
        samples_per_s, fragment_s = bench.batch_costs()
        receive.append(fragment_s)
        return samples_per_s

    rate = repeated(learner, seconds)
    bench.close()
    return TurnRate(
        num_envs=sizes.num_envs,
        batch_size=sizes.batch_size,
        learner_s_per_sample=1.0 / rate.median,
        buffer_s_per_fragment=spread(receive[1:] or receive).median,
    )


def _learners(
    request: MeasureRequest, progress: _Progress, actor: ActorRate, samples_per_s: float
) -> Iterator[GroupRates]:
    """With a rising number of cores, until more of them bring nothing more."""
    best = 0.0
    for cores in request.learner_cores:
        progress.next(f"a learner on {cores} core(s), its buffer and what feeds it")
        rates = _learner(request, cores, actor, samples_per_s * cores)
        yield rates
        if rates.learner.samples_per_s.median < _GAIN * best:
            return
        best = max(best, rates.learner.samples_per_s.median)


def _learner(request: MeasureRequest, cores: int, actor: ActorRate, expected: float) -> GroupRates:
    """One trial, fed by actors if these are fast enough; cores that are not needed for that have actors, too."""
    own, others = request.cores[:cores], request.cores[cores:]
    if not others:
        return _crowded(request, own)
    per_step = trained_per_step(request.job)
    wanted = -int(-_MARGIN * expected // (per_step * actor.steps_per_s.median))
    most = min(_MOST_FEEDING, len(others))
    first = cores == request.learner_cores[0]
    span = 2 * request.seconds if first else 0.7 * request.seconds
    # Too slow, but quick enough for the learner to learn something by them: for that a shorter trial will do.
    learns = wanted > most and first and actor.steps_per_s.median >= _QUICK
    feeding = wanted if wanted <= most else most if learns else 0
    with crowd_on(request, others[max(1, feeding) :], taker=others):
        with Group(request, own, others[: max(1, feeding)], actors=feeding) as group:
            rates = group.rates(request.seconds if learns else span)
        if not rates.starved:
            return rates
        with Group(request, own, others[:1], actors=0) as group:
            return group.rates(span)._replace(policy=rates.policy)


def _crowded(request: MeasureRequest, cores: Sequence[int]) -> GroupRates:
    """Nobody has a core left: all of it shares them, and the learner's own time is what counts."""
    with Group(request, cores, cores, actors=0) as group:
        rates = group.rates(2 * request.seconds)
    cost = rates.learner.cpu_s_per_sample
    assert cost is not None
    alone = [len(cores) / max(seconds, 1e-12) for seconds in (cost.median, cost.low, cost.high)]
    return rates._replace(
        strangers=0.0, learner=LearnerRate(cores=len(cores), samples_per_s=spread(alone), cpu_s_per_sample=cost)
    )


def _courier(request: MeasureRequest, progress: _Progress) -> Spread | None:
    """None where couriers cannot run here; a run would say why."""
    progress.next("two couriers")
    try:
        return courier_cpu_s(request)
    except MeasureError as error:
        sys.stderr.write(f"{error}\n")
        return None


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
