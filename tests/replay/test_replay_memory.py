"""The replay memory: what it holds, how often it draws what, and how it weighs and re-weighs it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.algorithm import ReplayConfig
from runtime.contract.envspec import EnvSpec
from runtime.replay.memory import Replay, replay_fields

ENV = EnvSpec(id="E", observation_shape=(2,), num_actions=2, native_vector=True, autoreset="next-step")


def arrays_for(capacity: int) -> dict[str, np.ndarray]:
    arrays = {}
    for name, field in replay_fields(ENV, capacity).items():
        arrays[name] = np.full(field.shape, np.nan if field.dtype.startswith("f") else -7, field.dtype)
    Replay.reset(arrays)
    return arrays


def make(capacity: int, arrays: dict[str, np.ndarray] | None = None, seed: int = 0, **config: Any) -> Replay:
    arrays = arrays_for(capacity) if arrays is None else arrays
    return Replay(arrays, ReplayConfig(**config), capacity, np.random.default_rng(seed))


def rows(first: int, count: int) -> dict[str, np.ndarray]:
    """Transitions that carry their own number in every column."""
    number = np.arange(first, first + count)
    pair = np.stack([number, number], axis=1).astype(np.float32)
    plain = number.astype(np.float32)
    return {"obs": pair, "action": number, "ret": plain, "discount": plain, "next_obs": pair, "version": number}


def drawn(replay: Replay, n: int, beta: float = 1.0) -> dict[str, np.ndarray]:
    out = {name: np.zeros((n, *field.shape[1:]), field.dtype) for name, field in replay_fields(ENV, n).items()}
    out |= {"index": np.zeros(n, np.int64), "weight": np.zeros(n, np.float32)}
    replay.sample(n, out, beta=beta)
    return out


@pytest.mark.parametrize("kind", ["uniform", "proportional"])
@given(chunks=st.lists(st.integers(0, 12), min_size=1, max_size=12), capacity=st.integers(1, 9))
def test_it_holds_the_newest_in_whole_rows_over_any_wrap(kind: str, chunks: list[int], capacity: int) -> None:
    replay, total = make(capacity, kind=kind), 0
    for chunk in chunks:
        assert replay.insert(rows(total, chunk)) == chunk
        total += chunk
    assert (replay.inserted, replay.size) == (total, min(total, capacity))
    if not total:
        return
    batch = drawn(replay, 300)
    newest = set(range(max(0, total - capacity), total))
    assert set(batch["action"].tolist()) <= newest
    if kind == "uniform" or capacity <= 4:
        assert set(batch["action"].tolist()) == newest
    for name in ("ret", "discount", "version", "generation"):
        np.testing.assert_array_equal(batch[name], batch["action"])
    np.testing.assert_array_equal(batch["obs"][:, 1], batch["action"])
    np.testing.assert_array_equal(batch["next_obs"][:, 0], batch["action"])


@pytest.mark.parametrize("kind", ["uniform", "proportional"])
def test_drawing_from_an_empty_memory_is_an_error(kind: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        drawn(make(4, kind=kind), 2)


def prioritised(errors: list[float], **config: Any) -> Replay:
    replay = make(len(errors), kind="proportional", **config)
    replay.insert(rows(0, len(errors)))
    index = np.arange(len(errors))
    replay.update_priorities(index, index, np.array(errors, np.float32))
    return replay


def test_draws_are_in_proportion_to_the_priorities() -> None:
    errors, alpha = [0.0, 1.0, 2.0, 4.0, 9.0], 0.5
    replay = prioritised(errors, alpha=alpha, epsilon=1e-6)
    count = np.bincount(drawn(replay, 40_000)["action"], minlength=5)
    expected = (np.array(errors) + 1e-6) ** alpha
    np.testing.assert_allclose(count / count.sum(), expected / expected.sum(), atol=0.01)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights_are_the_inverse_of_how_likely_a_draw_was(beta: float) -> None:
    errors = np.array([0.5, 1.0, 4.0])
    batch = drawn(prioritised(errors.tolist(), alpha=1.0, epsilon=1e-9), 500, beta)
    probability = errors / errors.sum()
    weight = (len(errors) * probability) ** -beta
    np.testing.assert_allclose(batch["weight"], (weight / weight.max())[batch["action"]], rtol=1e-5)


def test_full_correction_makes_the_weighted_mean_that_of_uniform_draws() -> None:
    batch = drawn(prioritised([0.5, 1.0, 4.0, 8.0], alpha=1.0, epsilon=1e-9), 50_000, 1.0)
    weight = batch["weight"].astype(float)
    assert float((weight * batch["action"]).sum() / weight.sum()) == pytest.approx(1.5, abs=0.02)


def test_uniform_draws_weigh_one() -> None:
    replay = make(8)
    replay.insert(rows(0, 8))
    batch = drawn(replay, 8000)
    assert (batch["weight"] == 1.0).all()
    np.testing.assert_allclose(np.bincount(batch["action"]) / 8000, 1 / 8, atol=0.02)


def test_priorities_of_overwritten_or_broken_samples_are_left_alone() -> None:
    replay = prioritised([1.0, 1.0, 1.0], alpha=1.0, epsilon=1e-9)
    replay.insert(rows(3, 1))  # overwrites position 0: its generation is 3 now
    taken = replay.update_priorities(
        np.array([0, 1, 2]), np.array([0, 1, 2]), np.array([500.0, np.nan, 3.0], np.float32)
    )  # fmt: skip
    assert taken == 1
    count = np.bincount(drawn(replay, 10_000)["action"], minlength=4)
    np.testing.assert_allclose(count / count.sum(), [0, 0.2, 0.6, 0.2], atol=0.02)


def test_a_new_sample_is_as_likely_as_the_likeliest() -> None:
    replay = prioritised([1.0, 7.0, 2.0], alpha=1.0, epsilon=1e-9)
    replay.insert(rows(3, 1))
    count = np.bincount(drawn(replay, 16_000)["action"], minlength=4)
    np.testing.assert_allclose(count / count.sum(), [0, 7 / 16, 2 / 16, 7 / 16], atol=0.02)


@pytest.mark.parametrize("kind", ["uniform", "proportional"])
def test_a_successor_attached_to_the_arrays_goes_on_with_the_same_memory(kind: str) -> None:
    arrays = arrays_for(5)
    first = make(5, arrays, kind=kind)
    first.insert(rows(0, 7))
    index = np.arange(5)
    first.update_priorities(index, arrays["generation"], np.array([9, 1, 1, 1, 5], np.float32))
    second = make(5, arrays, kind=kind)
    assert (second.inserted, second.size) == (7, 5)
    # Same random numbers, same draws; the stream of the first was not used yet.
    np.testing.assert_array_equal(drawn(first, 50)["index"], drawn(second, 50)["index"])
    second.insert(rows(7, 1))
    assert arrays["action"].tolist() == [5, 6, 7, 3, 4]
