"""What a run has, measured as a run has it: real components in processes of their own."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from runtime.contract.envspec import EnvSpec
from runtime.contract.job import Job
from runtime.contract.measurement import MeasureRequest
from runtime.contract.shape import Shape
from runtime.contract.sizes import resolve_sizes
from runtime.measure.actors import alone
from runtime.measure.clocking import windows
from runtime.measure.command import measure
from runtime.measure.couriers import courier_cpu_s
from runtime.measure.groups import Group
from runtime.measure.stage import MeasureError

CARTPOLE = EnvSpec(id="CartPole-v1", observation_shape=(4,), num_actions=2, native_vector=True, autoreset="next-step")
CORES = tuple(sorted(os.sched_getaffinity(0)))

# NumPy's threads in the process that tests; `python -m runtime measure` has none when it forks.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def request_for(folder: Path, algorithm: str = "ppo", cores: tuple[int, ...] = CORES, **env: object) -> MeasureRequest:
    document = {"name": "test", "env": {"id": "CartPole-v1", **env}, "algorithm": {"name": algorithm}}
    job = Job.model_validate(document)
    sizes = resolve_sizes(job, Shape(1, 1), CARTPOLE)
    return MeasureRequest(
        job=job, env=CARTPOLE, sizes=sizes, cores=cores, folder=str(folder), leave_out_strangers=True, seconds=0.2
    )


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def test_an_actor_that_waits_for_its_simulator_uses_little_of_its_core(tmp_path: Path) -> None:
    rate = alone(request_for(tmp_path, num_envs=4, delay_us=2000), 0.2)
    assert 200 < rate.steps_per_s.median < 4 / 0.002, "four steps every 2 ms and a bit"
    assert rate.cpu_s_per_step is not None
    assert rate.cpu_s_per_step.median < 0.5 / rate.steps_per_s.median


def test_steps_of_a_fragment_that_takes_longer_than_there_is_time_count(tmp_path: Path) -> None:
    request = request_for(tmp_path, num_envs=2, delay_us=120_000)
    assert request.sizes.rollout * 0.12 > 3.0, "no fragment will be full"
    began = time.monotonic()
    rate = alone(request, 0.2)
    assert time.monotonic() - began < 10.0
    assert rate.steps_per_s.median == pytest.approx(2 / 0.12, rel=0.3)


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_a_group_trains_fed_by_hand_and_leaves_nothing_behind(algorithm: str, tmp_path: Path) -> None:
    before = children()
    with Group(request_for(tmp_path, algorithm), CORES[:1], CORES[1:] or CORES, actors=0) as group:
        rates = group.rates(0.2)
        assert len(children() - before) == 3, "learner, buffer and who feeds it"
    assert children() == before
    assert list(tmp_path.iterdir()) == []
    cost = rates.learner.cpu_s_per_sample
    assert cost is not None
    assert 0 < cost.median * rates.learner.samples_per_s.median < 1.3, "seconds of one core in a second"
    assert rates.buffer_cpu_s.median > 0
    assert rates.receive_s > 0
    assert not rates.starved


def test_actors_that_are_slower_than_the_learner_are_said_to_starve_it(tmp_path: Path) -> None:
    request = request_for(tmp_path, num_envs=1)  # a step costs as much as with many environments
    quick = request.job.model_copy(
        update={"algorithm": request.job.algorithm.model_copy(update={"epochs": 1, "minibatch": 10_000})}
    )
    with Group(request.model_copy(update={"job": quick}), CORES[:1], CORES[1:] or CORES, actors=1) as group:
        assert group.rates(0.2).starved


def test_a_component_that_cannot_start_is_named_with_its_reason(tmp_path: Path) -> None:
    request = request_for(tmp_path)
    nowhere = request.job.model_copy(update={"env": request.job.env.model_copy(update={"id": "NoSuchEnv-v0"})})
    with pytest.raises(MeasureError, match=r"actor-0 ended while it was measured: .*NoSuchEnv"):
        alone(request.model_copy(update={"job": nowhere}), 0.2)
    assert list(tmp_path.iterdir()) == []


def test_who_measures_may_use_the_same_cores_afterwards(tmp_path: Path) -> None:
    report = measure(request_for(tmp_path))
    assert tuple(sorted(os.sched_getaffinity(0))) == CORES
    assert report.learners[0].cores == 1
    assert 0 <= report.strangers < 1


def test_a_fragment_to_another_host_costs_core_time(tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 30)  # deeper than the address of a socket may be long
    deep.mkdir()
    cost = courier_cpu_s(request_for(deep))
    assert 0 < cost.low <= cost.median < 0.05


def test_windows_end_where_work_has_just_moved_on() -> None:
    began = time.monotonic()

    def pieces() -> int:
        return int((time.monotonic() - began) / 0.03)

    pairs = windows(lambda: time.monotonic() - began, pieces, window_s=0.04, most_s=5.0, count=3)
    assert len(pairs) == 3
    for first, last in pairs:
        whole = round((last - first) / 0.03)
        assert whole >= 2
        assert last - first == pytest.approx(0.03 * whole, abs=0.02)


def test_work_that_stands_still_ends_the_windows_in_time() -> None:
    began = time.monotonic()
    assert len(windows(time.monotonic, lambda: 0, window_s=0.01, most_s=0.1)) == 1
    assert time.monotonic() - began < 2.0
