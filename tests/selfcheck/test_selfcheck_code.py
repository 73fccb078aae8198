"""Replay, non-finite losses, streams, threads and engines: sound as they are, and found out when broken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime.algorithms.adam import Adam
from runtime.algorithms.dqn import algorithm as dqn
from runtime.algorithms.ppo import algorithm as ppo
from runtime.contract.algorithm import DqnConfig, NetworkConfig, PpoConfig, ReplayConfig
from runtime.models.mlp import Mlp
from runtime.replay.memory import Replay
from runtime.replay.sumtree import SumTree
from runtime.selfcheck import numerics, streams
from runtime.selfcheck.drawing import check_prioritised_replay, replay_settings
from runtime.selfcheck.sentinel import check_not_finite

PROPORTIONAL = ReplayConfig(kind="proportional")
CONFIGS: dict[str, PpoConfig | DqnConfig] = {
    "ppo": PpoConfig(name="ppo", network=NetworkConfig(hidden=(2048,))),
    "vtrace": PpoConfig(name="ppo", correction="vtrace"),
    "dqn": DqnConfig(name="dqn"),
    "dueling": DqnConfig(name="dqn", dueling=True, double=False),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("alpha", [0.3, 0.6, 1.0])
def test_draws_match_their_priorities(alpha: float, seed: int) -> None:
    seen = check_prioritised_replay(ReplayConfig(kind="proportional", alpha=alpha), seed)
    assert seen.ok, seen


def test_the_jobs_own_exponents_are_looked_at_where_it_has_any() -> None:
    own = ReplayConfig(kind="proportional", alpha=0.9)
    assert replay_settings(DqnConfig(name="dqn", replay=own)) is own
    assert replay_settings(DqnConfig(name="dqn")).kind == replay_settings(PpoConfig(name="ppo")).kind == "proportional"


def test_draws_that_ignore_priorities_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SumTree, "find", lambda _, mass: np.arange(len(mass)) % 50)
    seen = check_prioritised_replay(PROPORTIONAL, 0)
    assert seen.ok is False and "not drawn in proportion" in seen.evidence


def test_another_exponent_than_asked_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Replay.__init__

    def other(self: Replay, arrays: Any, config: ReplayConfig, *rest: Any) -> None:
        real(self, arrays, config.model_copy(update={"alpha": config.alpha - 0.1}), *rest)

    monkeypatch.setattr(Replay, "__init__", other)
    assert check_prioritised_replay(PROPORTIONAL, 0).ok is False


def test_wrong_importance_weights_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replay, "_weights", lambda _, index, _beta: np.ones(len(index), np.float32))
    seen = check_prioritised_replay(PROPORTIONAL, 0)
    assert seen.ok is False and "importance weights" in seen.evidence


def test_a_priority_of_what_was_overwritten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Replay.update_priorities

    def careless(self: Replay, index: Any, _: Any, error: Any) -> int:
        return real(self, index, self._arrays["generation"][index], error)

    monkeypatch.setattr(Replay, "update_priorities", careless)
    seen = check_prioritised_replay(PROPORTIONAL, 0)
    assert seen.ok is False and "replaced" in seen.evidence


@pytest.mark.parametrize("name", CONFIGS)
def test_bad_batches_change_nothing(name: str) -> None:
    seen = check_not_finite(CONFIGS[name], 0)
    assert seen.ok, seen


@pytest.mark.parametrize(("module", "name"), [(ppo, "ppo"), (dqn, "dqn")])
def test_a_loss_that_nobody_looks_at_is_found(module: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "isfinite", lambda _: True)
    seen = check_not_finite(CONFIGS[name], 0)
    assert seen.ok is False and "taken for a good one" in seen.evidence


def test_parameters_that_move_before_the_look_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(self: ppo.Ppo, batch: Any) -> Any:
        self._params += 1.0
        return real(self, batch)

    real = ppo.Ppo._samples
    monkeypatch.setattr(ppo.Ppo, "_samples", hasty)
    seen = check_not_finite(CONFIGS["ppo"], 0)
    assert seen.ok is False and "too late" in seen.evidence and seen.seen == "params changed"


def test_an_optimiser_that_does_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Adam, "step", lambda *_: None)
    seen = check_not_finite(CONFIGS["dqn"], 0)
    assert seen.ok is False and "does not change the parameters" in seen.evidence


def test_streams_differ_and_repeat() -> None:
    seen = streams.check_streams(3)
    assert seen.ok, seen


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda run, _role, index, _attempt: np.random.SeedSequence(run + index), "draw the same numbers"),
        (lambda run, _role, index, _attempt: np.random.SeedSequence((run, index)), "draw the same numbers"),
        (lambda *_: np.random.SeedSequence(), "draws other numbers"),
    ],
    ids=["seed plus index", "no attempt", "no seed"],
)
def test_streams_that_overlap_or_do_not_repeat_are_found(
    broken: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "seed_sequence", broken)
    seen = streams.check_streams(3)
    assert seen.ok is False and words in seen.evidence


def test_a_library_that_takes_more_threads_than_asked_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert numerics.check_threads(1).ok
    pool = {"user_api": "blas", "internal_api": "openblas", "version": "0", "num_threads": 64}
    monkeypatch.setattr(numerics, "threadpool_info", lambda: [pool])
    seen = numerics.check_threads(2)
    assert (seen.ok, seen.expected, seen.seen) == (False, "2 each", "blas (openblas 0): 64")


def test_both_engines_compute_the_same_and_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert numerics.check_engines(0).ok
    real = Mlp.backward
    monkeypatch.setattr(Mlp, "backward", lambda self, delta: real(self, delta * np.float32(1.01)))
    seen = numerics.check_engines(0)
    assert seen.ok is False and "gradients" in seen.evidence
