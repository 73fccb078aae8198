"""Other sizes that a job leaves room for keep every bound of the job."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.contract.envspec import EnvSpec
from runtime.contract.job import Job
from runtime.contract.shape import Shape
from runtime.contract.sizes import SizesError, resolve_sizes
from runtime.contract.sizings import USUAL, Sizing, admitted, opened, sized, sizings

CARTPOLE = EnvSpec(id="CartPole-v1", observation_shape=(4,), num_actions=2, native_vector=True, autoreset="next-step")


def job(algorithm: str = "ppo", **sections: Any) -> Job:
    env = {"id": "CartPole-v1", **sections.pop("env", {})}
    return Job.model_validate({"name": "t", "env": env, "algorithm": {"name": algorithm}, **sections})


def numbers(wanted: Job) -> list[tuple[int, int, int]]:
    shape = Shape(1, 1)
    found = [admitted(wanted, sizing, shape, CARTPOLE) for sizing in sizings(wanted, shape, CARTPOLE)]
    return [(s.num_envs, s.batch_size, s.buffer_size) for s in found if s is not None]


@settings(max_examples=150, deadline=None)
@given(
    algorithm=st.sampled_from(["ppo", "dqn"]),
    envs=st.sampled_from(["auto", 1, 16, 64]),
    batch=st.sampled_from(["auto", 32, 2048]),
    buffer=st.sampled_from(["auto", 5_000, 20_000, 100_000]),
    tolerance=st.sampled_from(["auto", 0.001, 0.05, 0.3]),
    learners=st.integers(1, 4),
    more=st.integers(0, 30),
)
def test_every_sizing_is_admissible_and_no_two_are_alike(
    algorithm: str, envs: Any, batch: Any, buffer: Any, tolerance: Any, learners: int, more: int
) -> None:
    wanted = job(
        algorithm,
        env={"num_envs": envs},
        training={"batch_size": batch, "staleness_tolerance": tolerance},
        distributed={"buffer_size": buffer},
    )
    shape = Shape(learners, learners + more)
    try:
        usual = resolve_sizes(wanted, shape, CARTPOLE)
    except SizesError:
        with pytest.raises(SizesError):
            sizings(wanted, shape, CARTPOLE)
        return
    found = sizings(wanted, shape, CARTPOLE)
    assert found[0] == USUAL
    seen = set()
    for sizing in found:
        sizes = resolve_sizes(sized(wanted, sizing), shape, CARTPOLE)
        assert sizes == admitted(wanted, sizing, shape, CARTPOLE)
        assert sizes.pool_ratio <= usual.staleness_tolerance * (1 + 1e-6)
        assert isinstance(envs, str) or sizes.num_envs == envs
        assert isinstance(batch, str) or sizes.batch_size == batch
        assert isinstance(buffer, str) or sizes.buffer_size == usual.buffer_size or algorithm == "ppo"
        assert 1 / 3 < sizes.num_envs / usual.num_envs < 3
        seen.add((sizes.num_envs, sizes.batch_size, sizes.buffer_size))
    assert len(seen) == len(found)


def test_off_policy_there_are_other_environments_smaller_batches_and_smaller_buffers() -> None:
    found = numbers(job("dqn"))
    assert found[0] == (16, 256, 65_536)
    assert {envs for envs, _, _ in found} == {8, 16, 32}
    assert {batch for _, batch, _ in found} == {128, 256}, "an automatic batch is never larger"
    assert {buffer for _, _, buffer in found} == {16_384, 32_768, 65_536}
    assert len(found) == 18


def test_a_smaller_buffer_takes_the_batch_down_with_it_where_p_is_tight() -> None:
    found = numbers(job("dqn", training={"staleness_tolerance": 0.001}))
    assert (16, 32, 32_768) in found
    assert (16, 16, 16_384) in found
    assert (16, 130, 130_000) in found, "and a larger batch takes a larger buffer"


def test_on_policy_batches_are_fresh_enough_for_the_actors_there_are() -> None:
    many = sizings(job(), Shape(1, 30), CARTPOLE)
    for sizing in many:
        sizes = admitted(job(), sizing, Shape(1, 30), CARTPOLE)
        assert sizes is not None
        assert sizes.fragments_per_batch >= 10, "30 fragments wait while two batches are ahead; at most 8 versions old"
    assert admitted(job(), Sizing(64, 4096), Shape(1, 1), CARTPOLE) is not None
    assert admitted(job(), Sizing(64, 4096), Shape(1, 30), CARTPOLE) is None


def test_what_the_job_says_of_sizes_can_be_left_open_one_by_one() -> None:
    wanted = job("dqn", env={"num_envs": 4}, training={"batch_size": 32, "staleness_tolerance": 0.2})
    found = {each.key: each for each in opened(wanted)}
    assert list(found) == ["training.staleness_tolerance", "training.batch_size", "env.num_envs"]
    assert found["training.batch_size"].value == 32
    assert found["training.batch_size"].job.training.batch_size == "auto"
    assert found["training.batch_size"].job.env.num_envs == 4
