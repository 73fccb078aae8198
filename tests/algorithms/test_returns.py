"""Advantages, V-trace and n-step returns against loops that follow one episode at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.algorithms.returns import VTrace, gae, n_step, vtrace
from runtime.components.transitions import transitions

GAMMA, LAM = 0.9, 0.8


@st.composite
def fragments(draw: st.DrawFn) -> dict[str, Any]:
    """A [T, B] fragment with any mix of ends; invalid cells hold numbers that must not matter."""
    steps, width = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (steps, width)
    end_share, gap_share = draw(st.sampled_from([0.0, 0.2, 0.6])), draw(st.sampled_from([0.0, 0.3]))
    return {
        "reward": rng.normal(size=shape).astype(np.float32),
        "value": rng.normal(size=shape).astype(np.float32),
        "next_value": rng.normal(size=shape).astype(np.float32),
        "next_obs": rng.normal(size=(*shape, 2)).astype(np.float32),
        "terminated": rng.random(shape) < end_share,
        "truncated": rng.random(shape) < end_share / 2,
        "log_ratio": rng.normal(size=shape).astype(np.float32),
        "valid": rng.random(shape) >= gap_share,
    }


def advantages(f: dict[str, Any], lam: float = LAM) -> np.ndarray:
    return gae(
        f["reward"], f["value"], f["next_value"], f["terminated"], f["truncated"], f["valid"], gamma=GAMMA, lam=lam
    )  # fmt: skip


def v_trace(f: dict[str, Any], lam: float = LAM, **clips: float) -> VTrace:
    return vtrace(
        f["reward"], f["value"], f["next_value"], f["log_ratio"], f["terminated"], f["truncated"], f["valid"],
        gamma=GAMMA, lam=lam, **clips,
    )  # fmt: skip


def delta(f: dict[str, Any], t: int, b: int) -> float:
    future = 0.0 if f["terminated"][t, b] else GAMMA * float(f["next_value"][t, b])
    return float(f["reward"][t, b]) + future - float(f["value"][t, b])


def naive_advantage(f: dict[str, Any], t: int, b: int) -> float:
    """Σ (γλ)^k δ_{t+k}, until the episode's end, a gap or the fragment's end."""
    if not f["valid"][t, b]:
        return 0.0
    total, weight = 0.0, 1.0
    while t < len(f["reward"]) and f["valid"][t, b]:
        total += weight * delta(f, t, b)
        if f["terminated"][t, b] or f["truncated"][t, b]:
            break
        weight *= GAMMA * LAM
        t += 1
    return total


def naive_target(f: dict[str, Any], t: int, b: int, lam: float, rho_clip: float, c_clip: float) -> float:
    """The paper's sum, V + Σ_k γ^k (Π_{i<k} c_i) ρ_k δ_k, along one episode."""
    total, weight = float(f["value"][t, b]), 1.0
    while t < len(f["reward"]) and f["valid"][t, b]:
        ratio = math.exp(f["log_ratio"][t, b])
        total += weight * min(rho_clip, ratio) * delta(f, t, b)
        if f["terminated"][t, b] or f["truncated"][t, b]:
            break
        weight *= GAMMA * lam * min(c_clip, ratio)
        t += 1
    return total


def naive_vtrace_advantage(f: dict[str, Any], t: int, b: int, lam: float, rho_clip: float, c_clip: float) -> float:
    """r + γ·(what the next state is worth) − V: of its V-trace target and its value, in the proportion λ to 1 − λ."""
    ended = f["terminated"][t, b] or f["truncated"][t, b]
    if ended or t + 1 == len(f["reward"]) or not f["valid"][t + 1, b]:
        return delta(f, t, b)
    further = naive_target(f, t + 1, b, lam, rho_clip, c_clip) - float(f["value"][t + 1, b])
    return delta(f, t, b) + GAMMA * lam * further


def naive_n_step(f: dict[str, Any], t: int, b: int, steps: int) -> tuple[float, float, np.ndarray]:
    total, weight = 0.0, 1.0
    for at in range(t, min(t + steps, len(f["reward"]))):
        if not f["valid"][at, b]:
            break
        total += weight * float(f["reward"][at, b])
        weight *= GAMMA
        last = at
        if f["terminated"][at, b]:
            return total, 0.0, f["next_obs"][at, b]
        if f["truncated"][at, b]:
            break
    return total, weight, f["next_obs"][last, b]


@given(fragments())
def test_advantages_equal_the_sum_over_each_episode(f: dict[str, Any]) -> None:
    expected = [
        [naive_advantage(f, t, b) for b in range(f["reward"].shape[1])] for t in range(len(f["reward"]))
    ]  # fmt: skip
    np.testing.assert_allclose(advantages(f), expected, rtol=1e-4, atol=1e-5)


@given(fragments(), st.sampled_from([0.0, LAM, 1.0]), st.sampled_from([(1.0, 1.0), (2.0, 0.5), (0.7, 1.5)]))
def test_v_trace_equals_the_papers_sum_over_each_episode(
    f: dict[str, Any], lam: float, clips: tuple[float, float]
) -> None:
    found = v_trace(f, lam, rho_clip=clips[0], c_clip=clips[1])
    for t, b in np.ndindex(f["reward"].shape):
        valid = bool(f["valid"][t, b])
        target = naive_target(f, t, b, lam, *clips) if valid else 0.0
        advantage = naive_vtrace_advantage(f, t, b, lam, *clips) if valid else 0.0
        assert found.target_TB[t, b] == pytest.approx(target, rel=1e-4, abs=1e-4)
        assert found.advantage_TB[t, b] == pytest.approx(advantage, rel=1e-4, abs=1e-4)


@given(fragments())
def test_v_trace_on_samples_of_the_policy_itself_is_what_generalised_advantages_are(f: dict[str, Any]) -> None:
    found = v_trace(f | {"log_ratio": np.zeros_like(f["log_ratio"])})
    np.testing.assert_allclose(found.advantage_TB, advantages(f), rtol=1e-5, atol=1e-5)
    expected = np.where(f["valid"], advantages(f) + f["value"], 0.0)
    np.testing.assert_allclose(found.target_TB, expected, rtol=1e-5, atol=1e-5)


def test_v_trace_of_actions_that_the_policy_would_hardly_take_leaves_the_values_and_of_likely_ones_is_bounded() -> None:
    f: dict[str, Any] = {
        "reward": column(1, 1), "value": column(3, 5), "next_value": column(5, 9),
        "terminated": column(0, 0, dtype=bool), "truncated": column(0, 0, dtype=bool),
        "valid": column(1, 1, dtype=bool),
    }  # fmt: skip
    never = v_trace(f | {"log_ratio": column(-200, -200)})
    np.testing.assert_array_equal(never.target_TB, f["value"])
    always, same = (v_trace(f | {"log_ratio": column(x, x)}) for x in (500, 0))
    np.testing.assert_array_equal(always.target_TB, same.target_TB)


@given(fragments(), st.integers(1, 5))
def test_n_step_targets_equal_the_walk_along_each_episode(f: dict[str, Any], steps: int) -> None:
    found = n_step(
        f["reward"], f["next_obs"], f["terminated"], f["truncated"], f["valid"], gamma=GAMMA, steps=steps
    )  # fmt: skip
    for t, b in np.argwhere(f["valid"]):
        ret, discount, next_obs = naive_n_step(f, t, b, steps)
        assert found.ret_TB[t, b] == pytest.approx(ret, rel=1e-4, abs=1e-5)
        assert found.discount_TB[t, b] == pytest.approx(discount, rel=1e-6)
        np.testing.assert_array_equal(found.next_obs_TB[t, b], next_obs)


@given(fragments())
def test_what_invalid_cells_hold_never_matters(f: dict[str, Any]) -> None:
    spoilt = dict(f) | {
        name: np.where(f["valid"], f[name], np.float32(np.nan))
        for name in ("reward", "value", "next_value", "log_ratio")
    }
    np.testing.assert_array_equal(advantages(spoilt), advantages(f))
    for found, expected in zip(v_trace(spoilt), v_trace(f), strict=True):
        np.testing.assert_array_equal(found, expected)


def column(*values: float | bool, dtype: Any = np.float32) -> np.ndarray:
    return np.array(values, dtype)[:, None]


def test_termination_is_worth_nothing_after_and_truncation_is_worth_the_true_successor() -> None:
    ends = {
        "reward": column(1, 1),
        "value": column(0, 0),
        "next_value": column(7, 0),
        "valid": column(1, 1, dtype=bool),
    }
    no, first = column(0, 0, dtype=bool), column(1, 0, dtype=bool)
    assert advantages(ends | {"terminated": first, "truncated": no})[0, 0] == pytest.approx(1.0)
    assert advantages(ends | {"terminated": no, "truncated": first})[0, 0] == pytest.approx(1.0 + GAMMA * 7)
    both = advantages(ends | {"terminated": first, "truncated": first})
    assert both[0, 0] == pytest.approx(1.0)


def test_the_inputs_are_left_as_they_were() -> None:
    f = {
        "reward": column(1, 2), "value": column(0, 0), "next_value": column(0, 0), "next_obs": np.zeros((2, 1, 2)),
        "terminated": column(0, 1, dtype=bool), "truncated": column(0, 0, dtype=bool),
        "valid": column(1, 1, dtype=bool), "log_ratio": column(1, -1),
    }  # fmt: skip
    before = {name: array.copy() for name, array in f.items()}
    advantages(f)
    v_trace(f)
    n_step(f["reward"], f["next_obs"], f["terminated"], f["truncated"], f["valid"], gamma=GAMMA, steps=2)
    for name, array in before.items():
        np.testing.assert_array_equal(f[name], array)


@given(fragments())
def test_transitions_are_the_valid_cells_with_their_versions(f: dict[str, Any]) -> None:
    steps, width = f["reward"].shape
    cells = np.arange(steps * width).reshape(steps, width)
    fragment = f | {"obs": cells[..., None].astype(np.float32), "action": cells, "version": np.arange(steps) + 10}
    found = transitions(fragment, gamma=GAMMA, steps=3)
    np.testing.assert_array_equal(found["action"], cells[f["valid"]])
    np.testing.assert_array_equal(found["obs"][:, 0], found["action"])
    np.testing.assert_array_equal(found["version"], found["action"] // width + 10)
    assert {len(array) for array in found.values()} == {int(f["valid"].sum())}
