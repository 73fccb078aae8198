"""The hand-computed vectors hold, and each of the usual mistakes breaks them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runtime.algorithms import returns
from runtime.selfcheck import golden

CHECKS: dict[str, tuple[str, Callable[[], Any]]] = {
    "gae": ("gae", golden.check_gae),
    "n_step": ("n_step", golden.check_n_step),
    "vtrace": ("vtrace", golden.check_v_trace),
}
#: What (terminated, truncated, valid) become under each mistake.
MISTAKES: dict[str, Callable[..., tuple[Any, Any, Any]]] = {
    "truncation taken for termination": lambda te, tr, va: (te | tr, tr, va),
    "truncation leaks into the next episode": lambda te, tr, va: (te, tr & False, va),
    "termination is worth what comes after": lambda te, tr, va: (te & False, te | tr, va),
    "ends are not seen at all": lambda te, tr, va: (te & False, tr & False, va),
    "one row late": lambda te, tr, va: (np.roll(te, 1, 0), np.roll(tr, 1, 0), va),
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_functions_equal_the_vectors_computed_by_hand(name: str) -> None:
    seen = CHECKS[name][1]()
    assert seen.ok, seen


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("name", CHECKS)
def test_a_wrong_end_of_an_episode_is_found(name: str, mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, check = CHECKS[name]
    real = getattr(returns, function)

    def wrong(*arrays: Any, **settings: Any) -> Any:
        return real(*arrays[:-3], *MISTAKES[mistake](*arrays[-3:]), **settings)

    monkeypatch.setattr(golden, function, wrong)
    seen = check()
    assert seen.ok is False and "an episode that" in seen.evidence
    assert seen.expected != seen.seen and seen.expected


@pytest.mark.parametrize("name", ["gae", "vtrace"])
def test_a_reset_step_that_counts_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, check = CHECKS[name]
    real = getattr(returns, function)
    monkeypatch.setattr(golden, function, lambda *a, **k: real(*a[:-1], np.ones_like(a[-1]), **k))
    seen = check()
    assert seen.ok is False and "with a reset step differ in step 2" in seen.evidence


@pytest.mark.parametrize(
    "spoil",
    [
        {"rho_clip": 8.0},
        {"c_clip": 8.0},
        {"rho_clip": 0.25},
        {"lam": 1.0},
        {"gamma": 0.6},
    ],
    ids=str,
)
def test_other_bounds_of_v_trace_are_found(spoil: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "vtrace", lambda *a, **k: returns.vtrace(*a, **(k | spoil)))
    assert golden.check_v_trace().ok is False


def test_v_trace_that_ignores_the_policies_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "vtrace", lambda r, v, n, x, *a, **k: returns.vtrace(r, v, n, 0 * x, *a, **k))
    seen = golden.check_v_trace()
    assert seen.ok is False and "targets" in seen.evidence


def test_an_n_step_return_of_the_wrong_length_or_with_a_reset_observation_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(golden, "n_step", lambda *a, **k: returns.n_step(*a, **(k | {"steps": 2})))
    assert golden.check_n_step().ok is False

    def reset_at_ends(reward: Any, next_obs: Any, terminated: Any, truncated: Any, *rest: Any, **k: Any) -> Any:
        return returns.n_step(reward, np.where(truncated[..., None], 0, next_obs), terminated, truncated, *rest, **k)

    monkeypatch.setattr(golden, "n_step", reset_at_ends)
    seen = golden.check_n_step()
    assert seen.ok is False and "observations reached" in seen.evidence
