"""Every `auto` is chosen so that batches are whole fragments and P stays within the tolerance."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.contract.envspec import EnvSpec
from runtime.contract.job import Job
from runtime.contract.plan import Sizes
from runtime.contract.shape import Shape
from runtime.contract.sizes import SizesError, check_pool_ratio, resolve_sizes

NATIVE = EnvSpec(id="CartPole-v1", observation_shape=(4,), num_actions=2, native_vector=True, autoreset="next-step")
PLAIN = NATIVE.model_copy(update={"native_vector": False})


def a_job(kind: str = "ppo", **sections: dict[str, Any]) -> Job:
    given_algorithm = {"name": kind, **sections.pop("algorithm", {})}
    given_env = {"id": "CartPole-v1", **sections.pop("env", {})}
    return Job.model_validate({"name": "j", "env": given_env, "algorithm": given_algorithm, **sections})


def sizes_of(job: Job, shape: str = "L1A2", env: EnvSpec = NATIVE) -> Sizes:
    return resolve_sizes(job, Shape.parse(shape), env)


def test_automatic_on_policy_batch_takes_one_fragment_of_each_actor() -> None:
    sizes = sizes_of(a_job())
    assert (sizes.num_envs, sizes.rollout, sizes.fragments_per_batch) == (64, 32, 2)
    assert sizes.batch_size == 2 * 64 * 32
    assert (sizes.ring_slots, sizes.batch_slots, sizes.publish_every) == (2, 2, 1)


def test_an_environment_without_its_own_vector_form_gets_few_copies() -> None:
    assert sizes_of(a_job(), env=PLAIN).num_envs == 8


def test_the_published_example_splits_its_batch_over_four_actors() -> None:
    job = a_job(
        distributed={"actors": 8, "learners": 2, "buffer_size": 65536},
        training={"batch_size": 2048, "staleness_tolerance": 0.2},
    )
    sizes = sizes_of(job, "L2A8")
    assert (sizes.num_envs, sizes.fragments_per_batch, sizes.batch_size) == (16, 4, 2048)
    assert sizes.pool_ratio <= 0.2


def test_a_large_on_policy_buffer_is_used_only_as_far_as_max_lag_allows() -> None:
    job = a_job(distributed={"buffer_size": 10**6}, training={"batch_size": 2048})
    sizes = sizes_of(job)
    assert sizes.buffer_size / sizes.batch_size <= 8


def test_many_actors_do_not_make_an_automatic_batch_grow_without_bound() -> None:
    sizes = sizes_of(a_job(), "L1A32")
    assert sizes.batch_size == 8192
    assert 32 * sizes.ring_slots * sizes.fragment_samples / sizes.batch_size + sizes.batch_slots <= 8


def test_a_batch_that_is_no_whole_number_of_fragments_names_the_nearest_two() -> None:
    job = a_job(env={"num_envs": 16}, training={"batch_size": 2000})
    with pytest.raises(SizesError) as caught:
        sizes_of(job)
    assert "512" in caught.value.message
    assert caught.value.hint == "training.batch_size: 1536 or 2048, or auto"


def test_a_batch_below_one_fragment_names_the_one_above() -> None:
    with pytest.raises(SizesError) as caught:
        sizes_of(a_job(training={"batch_size": 20}))
    assert caught.value.hint == "training.batch_size: 32, or auto"


def test_off_policy_sizes_are_the_usual_ones() -> None:
    sizes = sizes_of(a_job("dqn"))
    assert (sizes.batch_size, sizes.buffer_size, sizes.num_envs) == (256, 65536, 16)
    assert (sizes.fragments_per_batch, sizes.ring_slots, sizes.batch_slots) == (0, 4, 4)
    assert sizes.staleness_tolerance == 0.25


def test_an_automatic_replay_memory_grows_with_the_batch() -> None:
    sizes = sizes_of(a_job("dqn", training={"batch_size": 20000, "staleness_tolerance": 0.1}))
    assert sizes.buffer_size == 200000


def test_an_automatic_off_policy_batch_fits_a_small_buffer() -> None:
    job = a_job("dqn", algorithm={"learning_starts": 100}, distributed={"buffer_size": 400})
    sizes = sizes_of(job)
    assert sizes.batch_size == 100
    assert sizes.fragment_samples <= 400


def test_learning_that_could_never_start_is_refused() -> None:
    with pytest.raises(SizesError, match="learning would never start"):
        sizes_of(a_job("dqn", distributed={"buffer_size": 900}))


def test_a_fragment_larger_than_the_replay_memory_is_refused() -> None:
    job = a_job("dqn", env={"num_envs": 64}, algorithm={"learning_starts": 10}, distributed={"buffer_size": 1000})
    with pytest.raises(SizesError, match=r"more than distributed\.buffer_size 1000") as caught:
        sizes_of(job)
    assert "1024" in caught.value.hint


def test_a_batch_larger_than_the_buffer_is_refused_with_numbers_that_fit() -> None:
    job = a_job("dqn", distributed={"buffer_size": 2000}, training={"batch_size": 4096})
    with pytest.raises(SizesError, match="larger than") as caught:
        check_pool_ratio(job)
    assert "training.batch_size: 500" in caught.value.hint
    assert "distributed.buffer_size: 16384" in caught.value.hint


def test_p_above_the_tolerance_is_refused_with_numbers_that_fit() -> None:
    job = a_job("dqn", distributed={"buffer_size": 8000}, training={"batch_size": 2048, "staleness_tolerance": 0.2})
    with pytest.raises(SizesError, match=r"P = 0\.256, above training\.staleness_tolerance 0\.2") as caught:
        check_pool_ratio(job)
    assert "training.batch_size: 1600" in caught.value.hint
    assert "distributed.buffer_size: 10240" in caught.value.hint


def test_p_exactly_at_the_tolerance_passes() -> None:
    check_pool_ratio(
        a_job("dqn", distributed={"buffer_size": 10240}, training={"batch_size": 2048, "staleness_tolerance": 0.2})
    )


def test_the_larger_on_policy_buffer_that_an_error_names_is_accepted() -> None:
    def job(buffer: int) -> Job:
        return a_job(distributed={"buffer_size": buffer}, training={"batch_size": 2048})

    with pytest.raises(SizesError, match="too small") as caught:
        sizes_of(job(2100))
    named = re.search(r"buffer_size: (\d+)", caught.value.hint)
    assert named is not None
    assert sizes_of(job(int(named[1]))).buffer_size <= int(named[1])


_maybe = st.none() | st.integers(1, 20_000)


@settings(max_examples=300, deadline=None)
@given(
    learners=st.integers(1, 5),
    extra=st.integers(0, 30),
    on_policy=st.booleans(),
    native=st.booleans(),
    batch=_maybe,
    buffer=_maybe,
    envs=st.none() | st.integers(1, 300),
    tolerance=st.none() | st.floats(0.01, 1.0),
    rollout=st.sampled_from([1, 5, 16, 32]),
)
def test_resolved_sizes_always_fit_together(
    learners: int,
    extra: int,
    on_policy: bool,
    native: bool,
    batch: int | None,
    buffer: int | None,
    envs: int | None,
    tolerance: float | None,
    rollout: int,
) -> None:
    shape = Shape(learners, learners + extra)
    job = a_job(
        "ppo" if on_policy else "dqn",
        env={"num_envs": envs or "auto"},
        algorithm={"rollout": rollout},
        distributed={"buffer_size": buffer or "auto"},
        training={"batch_size": batch or "auto", "staleness_tolerance": tolerance or "auto"},
    )
    try:
        sizes = resolve_sizes(job, shape, NATIVE if native else PLAIN)
    except SizesError as error:
        assert error.hint
        assert batch or buffer or envs, f"refused though nothing was asked for: {error}"
        return
    assert batch in (None, sizes.batch_size)
    assert envs in (None, sizes.num_envs)
    assert buffer is None or sizes.buffer_size <= buffer
    assert sizes.pool_ratio <= sizes.staleness_tolerance * (1 + 1e-6)
    assert sizes.pool_ratio == pytest.approx(sizes.batch_size / sizes.buffer_size)
    if on_policy:
        assert sizes.fragments_per_batch * sizes.fragment_samples == sizes.batch_size
        for group in range(learners):
            assert shape.actors_of_group(group) * sizes.ring_slots >= sizes.fragments_per_batch
        assert min(sizes.ring_slots, sizes.batch_slots) >= 2, "no ring works with fewer"
    else:
        assert sizes.fragment_samples <= sizes.buffer_size
