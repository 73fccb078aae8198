"""What every algorithm promises the learner: state, roll-back, non-finite updates, schedules, peers."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.algorithms.registry import state_fields
from runtime.memory.block import GAUGES
from runtime.models.numpy_policy import NumpyPolicy
from runtime.models.spec import NetworkSpec
from support.learning import ENV, batch, config, make, update

both = pytest.mark.parametrize("name", ["ppo", "dqn"])


@both
def test_an_update_counts_changes_the_parameters_and_reports_known_gauges(name: str) -> None:
    algorithm, beats = make(name), []
    before = algorithm.params.copy()
    report = algorithm.update(
        batch(name), env_steps=0, learning_rate_scale=1.0, beat=lambda: beats.append(1)
    )  # fmt: skip
    assert report.finite and algorithm.updates == 1 and beats
    assert not np.array_equal(before, algorithm.params)
    assert set(report.diagnostics) <= set(GAUGES)
    assert all(np.isfinite(value) for value in report.diagnostics.values())


@both
def test_parameters_are_one_vector_that_keeps_its_place(name: str) -> None:
    algorithm = make(name)
    params = algorithm.params
    update(algorithm, batch(name))
    assert algorithm.params is params and np.shares_memory(algorithm.state()["params"], params)


@both
def test_the_state_has_the_fields_that_were_announced(name: str) -> None:
    state = make(name).state()
    announced = state_fields(config(name), ENV)
    assert {key: (str(a.dtype), a.shape) for key, a in state.items()} == {
        key: (field.dtype, field.shape) for key, field in announced.items()
    }


@both
def test_a_successor_with_the_saved_state_goes_on_exactly(name: str) -> None:
    first = make(name)
    for seed in range(3):
        update(first, batch(name, seed))
    saved = {key: array.copy() for key, array in first.state().items()}
    second = make(name)
    second.load_state(saved)
    assert second.updates == 3
    for seed in range(3, 6):
        for algorithm in (first, second):
            update(algorithm, batch(name, seed), env_steps=100 * seed)
    for key, array in first.state().items():
        np.testing.assert_array_equal(second.state()[key], array)


@both
def test_a_state_that_does_not_fit_is_refused_whole(name: str) -> None:
    algorithm = make(name)
    good = {key: np.ones_like(array) for key, array in algorithm.state().items()}
    before = {key: array.copy() for key, array in algorithm.state().items()}
    with pytest.raises(KeyError, match="adam_mean"):
        algorithm.load_state({key: array for key, array in good.items() if key != "adam_mean"})
    with pytest.raises(ValueError, match="counters"):
        algorithm.load_state(good | {"counters": np.zeros(7, np.int64)})
    for key, array in algorithm.state().items():
        np.testing.assert_array_equal(array, before[key])


@both
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_batch_that_is_not_finite_is_reported_and_changes_nothing(name: str, bad: float) -> None:
    algorithm, data = make(name), batch(name)
    update(algorithm, data)
    before = {key: array.copy() for key, array in algorithm.state().items()}
    poisoned = {key: array.copy() for key, array in data.items()}
    poisoned["reward" if name == "ppo" else "ret"].reshape(-1)[0] = bad
    report = update(algorithm, poisoned)
    assert (not report.finite and "finite" in report.reason) or "loss" in report.reason
    for key, array in algorithm.state().items():
        np.testing.assert_array_equal(array, before[key])


@both
def test_the_learning_rate_is_scaled_for_stale_data(name: str) -> None:
    full, half = make(name), make(name)
    rate = update(full, batch(name)).diagnostics["learning_rate"]
    assert update(half, batch(name), scale=0.5).diagnostics["learning_rate"] == pytest.approx(rate / 2)
    assert not np.array_equal(full.params, half.params)


def test_the_learning_rate_falls_with_the_env_steps_of_the_whole_run() -> None:
    settings = {"learning_rate": 1e-2, "learning_rate_end": 1e-3, "learning_rate_decay_steps": 1000}
    rates = [
        update(make("ppo", **settings), batch("ppo"), env_steps=steps).diagnostics["learning_rate"]
        for steps in (0, 500, 10**6)
    ]  # fmt: skip
    assert rates == pytest.approx([1e-2, 5.5e-3, 1e-3])


@both
def test_peers_of_one_run_start_alike_and_runs_with_other_seeds_do_not(name: str) -> None:
    np.testing.assert_array_equal(make(name, index=0).params, make(name, index=1, attempt=3).params)
    assert not np.array_equal(make(name, seed=0).params, make(name, seed=1).params)


@both
def test_one_seed_gives_one_result_bit_for_bit(name: str) -> None:
    runs = [make(name), make(name)]
    for seed in range(3):
        for algorithm in runs:
            update(algorithm, batch(name, seed))
    np.testing.assert_array_equal(runs[0].params, runs[1].params)


@both
def test_averaging_takes_the_mean_with_the_peers(name: str) -> None:
    algorithm = make(name)
    expected = algorithm.params / 2
    algorithm.average_with([np.zeros_like(algorithm.params)])
    np.testing.assert_allclose(algorithm.params, expected, rtol=1e-6)


@both
def test_a_gradient_that_overflows_is_reported_before_the_parameters_change(name: str) -> None:
    algorithm, data = make(name), batch(name)
    huge = data | {"reward" if name == "ppo" else "ret": np.full_like(data["reward" if name == "ppo" else "ret"], 1e30)}
    before = algorithm.params.copy()
    changes = {"huber_delta": None} if name == "dqn" else {}
    algorithm = make(name, **changes)
    report = update(algorithm, huge)
    assert not report.finite and report.reason
    np.testing.assert_array_equal(algorithm.params, before)


@pytest.mark.parametrize("correction", ["none", "vtrace"])
def test_cells_that_are_not_valid_are_never_trained_on(correction: str) -> None:
    data = batch("ppo")
    spoilt = {key: array.copy() for key, array in data.items()}
    gaps = ~data["valid"]
    assert gaps.any()
    spoilt["reward"][gaps] = np.nan
    spoilt["logp"][gaps] = np.nan
    spoilt["action"][gaps] = 99
    clean, dirty = (make("ppo", correction=correction) for _ in range(2))
    assert update(clean, data).finite and update(dirty, spoilt).finite
    np.testing.assert_array_equal(clean.params, dirty.params)


def test_v_trace_changes_an_update_only_where_the_samples_are_of_another_policy() -> None:
    own, start = batch("ppo"), make("ppo").params
    policy = NumpyPolicy(NetworkSpec.of(ENV, config("ppo")), own["action"].size, np.random.default_rng(0))
    policy.load(start)
    logp = policy.log_probs(own["obs"].reshape(-1, 4), own["action"].ravel()).reshape(own["logp"].shape).copy()

    def after(correction: str, older_by: float) -> np.ndarray:
        algorithm = make("ppo", correction=correction)
        assert update(algorithm, own | {"logp": logp + np.float32(older_by)}).finite
        return algorithm.params

    np.testing.assert_allclose(after("vtrace", 0.0), after("none", 0.0), rtol=1e-4, atol=1e-5)
    assert np.abs(after("vtrace", 0.5) - after("none", 0.5)).max() > 1e-3


def test_a_batch_without_one_valid_cell_is_no_update() -> None:
    algorithm, data = make("ppo"), batch("ppo")
    before = algorithm.params.copy()
    report = update(algorithm, data | {"valid": np.zeros_like(data["valid"])})
    assert report.finite
    np.testing.assert_array_equal(before, algorithm.params)


def test_epochs_end_early_once_the_policy_has_moved_too_far() -> None:
    beats: dict[float | None, int] = {}
    for limit in (None, 1e-9):
        algorithm, count = make("ppo", epochs=4, target_kl=limit), []
        algorithm.update(batch("ppo"), env_steps=0, learning_rate_scale=1.0, beat=lambda count=count: count.append(1))
        beats[limit] = len(count)
    assert beats[None] == 4 * beats[1e-9]
